//! `gemmc fuzz --fixes`: random wrong schedules, and the results of the fixes offered for them.

use ptx_gemm_check::draws::{Fixes, Outcomes, Unasked};
use ptx_gemm_check::figures::table;
use serde_json::json;

use super::{COUNT, keep};
use crate::cli::Fuzz;
use crate::progress;
use crate::reply::{Failure, Format, Reply, Status};

/// The number of useless fixes that are shown in full.
const MAX_SHOWN: usize = 5;

pub(super) fn run(args: &Fuzz, format: Format) -> Result<Reply, Failure> {
    let count = args.count.unwrap_or(COUNT);
    let bar = progress::bar(count, format);
    let (mut fixes, mut seed) = (Fixes::default(), args.seed);
    while fixes.total().offered < count {
        fixes.add(seed);
        bar.set_position(fixes.total().offered as u64);
        seed = seed.wrapping_add(1);
    }
    bar.finish_and_clear();
    let last = seed.wrapping_sub(1);
    let total = fixes.total();
    let status = match (total.no_better, total.offered) {
        _ if !fixes.unasked.is_empty() => Status::Wrong,
        (1.., _) => Status::Wrong,
        (0, 0) => Status::Uncompared,
        (0, _) => Status::Fine,
    };
    let json = json!({
        "ok": status == Status::Fine,
        "first_seed": args.seed,
        "last_seed": last,
        "total": total,
        "fixes": fixes,
        "command": format!("gemmc fuzz --fixes --seed {} --count {count}", args.seed),
    });
    keep(args, &json)?;
    Ok(Reply { text: text(&fixes, args.seed, last), json, status })
}

fn text(fixes: &Fixes, first: u64, last: u64) -> String {
    let total = fixes.total();
    let columns = ["rule", "errors", "fixes", "legal", "fewer errors", "no better"];
    let row = |rule: &str, Outcomes { errors, offered, legal, fewer, no_better }: &Outcomes| {
        let counts = [errors, offered, legal, fewer, no_better].map(ToString::to_string);
        [vec![rule.to_string()], counts.to_vec()].concat()
    };
    let rules = fixes.rules.iter().map(|(rule, outcomes)| row(rule, outcomes));
    let mut text = table(columns, rules.chain([row("all", &total)]));
    text.push_str(&format!(
        "\n{} wrong schedules, seeds {first} to {last}: {} of {} fixes lead to a legal schedule or to fewer errors; \
         those that only change how the product is computed repair {}, all together {}\n",
        fixes.schedules,
        total.legal + total.fewer,
        total.offered,
        fixes.repaired,
        fixes.repaired_by_all,
    ));
    for Unasked { seed, text: wrong, changes } in fixes.unasked.iter().take(MAX_SHOWN) {
        text.push_str(&format!("\nseed {seed}:\n{wrong}\nchanged without being asked to: {}\n", changes.join(", ")));
    }
    for useless in fixes.useless.iter().take(MAX_SHOWN) {
        let fixed = useless.fixed.as_deref().unwrap_or("cannot be applied");
        text.push_str(&format!(
            "\nseed {}:\n{}\n{}\nfixed: {fixed}\n{}",
            useless.seed, useless.text, useless.error, useless.after
        ));
    }
    text
}
