//! Rules can be switched off one by one. A kernel that breaks a rule ends with it if the rule is checked, alone or with
//! all others, and otherwise runs to its end.

use ptx_gemm_interp::ViolationKind::{
    self, BarrierMismatch, BarrierMisuse, InvalidOperand, NotWritten, NotZero, PastRows, Proxy, ProxyInit, ProxyWar,
    Race, Registers, Uninitialised, Wgmma, WrittenTwice,
};
use ptx_gemm_interp::{Arg, Checks, Launch, Memory, Options, Program, Severity, TensorElement, TensorMapArgs, launch};

use crate::copies::{INIT, WAIT, text};
use crate::tensor;

const COPY: &str = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [a], [%in], 256, [bar];\n";
const EXPECT: &str = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;\n";

fn broken() -> Vec<(ViolationKind, String)> {
    let unfenced = INIT.replace("@%p0 fence.mbarrier_init.release.cluster; // fence of init\n", "");
    let touched = INIT.replace("bar.sync 0;", "@%p0 st.shared.u32 [a], 1;\nbar.sync 0;");
    vec![
        (Uninitialised, "st.global.u32 [%out], %r7;".into()),
        (BarrierMismatch, "bra.uni NEXT;\nNEXT: @%p0 bra.uni END;\nmov.u32 %r0, 1;\nEND:".into()),
        (BarrierMisuse, format!("{INIT}@%p0 ld.shared.u32 %r0, [bar];")),
        (Race, "st.shared.u32 [a], %t;".into()),
        (Proxy, format!("{touched}@!%p0 bra WAIT;\n{EXPECT}{COPY}{WAIT}")),
        (
            ProxyWar,
            format!(
                "{INIT}@%p0 st.shared.u32 [a], 1;\nfence.proxy.async;\nbar.sync 0;\nld.shared.u32 %r0, [a];\nbar.sync 0;\n@!%p0 bra WAIT;\n{EXPECT}{COPY}{WAIT}"
            ),
        ),
        (ProxyInit, format!("{unfenced}@!%p0 bra WAIT;\n{EXPECT}{COPY}{WAIT}")),
        // Rows of 5 words.
        (
            PastRows,
            "mov.u32 %r0, a;\nshl.b32 %r1, %t, 2;\nadd.u32 %r0, %r0, %r1;\nst.shared.u32 [%r0], %t;\nfence.proxy.async;
             bar.sync 0;\n@!%p0 bra END;
             cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%mb, {0, 0}], [a];
             cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nEND:"
                .into(),
        ),
        (Registers, "setmaxnreg.dec.sync.aligned.u32 128;".into()),
        (WrittenTwice, "st.global.u32 [%out], 0;\nst.global.u32 [%out], 0;".into()),
        (NotWritten, "@%p0 st.global.u32 [%out], 3;".into()),
        (NotZero, "@%p0 st.global.u32 [%out], 3;".into()),
        (
            InvalidOperand,
            "mov.u32 %r0, 8;\n@%p0 cp.async.ca.shared.global [a], [%in], 4, %r0;\ncp.async.wait_all;".into(),
        ),
        // Without a fence of the registers before.
        (
            Wgmma,
            "mov.u32 %r0, a;\nshr.u32 %r0, %r0, 4;\ncvt.u64.u32 %rd0, %r0;\nor.b64 %rd0, %rd0, 0x800400000;
             wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd0, %rd0, 0, 1, 1, 0, 0;
             wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
                .into(),
        ),
    ]
}

fn run(rule: ViolationKind, body: &str, checks: Checks) -> Result<usize, ViolationKind> {
    let program = Program::from_text(&text(body)).unwrap_or_else(|error| panic!("{error}\n{body}"));
    let memory = Memory::new();
    let input = memory.alloc_from("in", &[1; 4096], 256).expect("fits");
    let out = match rule {
        NotWritten => memory.alloc("out", 8, 256),
        _ => memory.alloc_from("out", &[0; 4096], 256),
    };
    let out = out.expect("fits");
    if rule == NotWritten {
        memory.set_written_after(out.address).expect("live");
    }
    if rule == WrittenTwice {
        memory.set_write_once(out.id).expect("live");
    }
    if rule == NotZero {
        memory.set_zero_after(out.address, 4).expect("inside");
    }
    let none = Arg::Bytes(vec![0; 128]);
    let to = tensor::map(&TensorMapArgs::new(TensorElement::U32, out.address, &[5, 4], &[32], &[8, 4]));
    let args = [Arg::U64(input.address), Arg::U64(out.address), none, to];
    // Only one thread writes where that matters.
    let threads = if matches!(rule, WrittenTwice | Uninitialised) { 1 } else { 128 };
    let block = [threads, 1, 1];
    let what = Launch { entry: "k", block, args: &args, registers: Some(96), ..Launch::default() };
    let deny = Severity::Deny;
    let limit = Some(100_000);
    let options = Options { checks, proxy_war: deny, past_rows: deny, max_instructions: limit, ..Options::default() };
    launch(&program, &memory, &what, &options).map(|report| report.warnings.len()).map_err(|violation| violation.kind)
}

#[test]
fn each_rule_has_a_switch() {
    let broken = broken();
    for (rule, body) in &broken {
        assert_eq!(run(*rule, body, Checks::Full), Err(*rule), "{rule:?} with all others");
        assert_eq!(run(*rule, body, Checks::Off.with(*rule)), Err(*rule), "{rule:?} alone");
        assert_eq!(run(*rule, body, Checks::Full.without(*rule)), Ok(0), "{rule:?} switched off");
        assert_eq!(run(*rule, body, Checks::Off), Ok(0), "{rule:?} without checks");
    }
    let tried = |rule: &ViolationKind| broken.iter().any(|(known, _)| known == rule);
    assert!(ViolationKind::ALL.iter().filter(|rule| rule.is_optional()).all(tried));
}

#[test]
fn rules_have_names() {
    for rule in ViolationKind::ALL {
        let name = rule.name();
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{name}");
        assert_eq!(ViolationKind::from_name(&name), Some(rule));
    }
    assert_eq!(Proxy.name(), "missing-proxy-fence");
    assert_eq!(ViolationKind::from_name("out-of-bounds"), Some(ViolationKind::OutOfBounds));
    assert_eq!(ViolationKind::from_name("all"), None);
    assert_eq!(format!("{:?} {:?}", Checks::Full, Checks::Off), "Full Off");
    assert_eq!(format!("{:?}", Checks::Off.with(Race).with(ViolationKind::Deadlock)), "{Race}");
    assert!(Checks::Off.has(ViolationKind::OutOfBounds));
}
