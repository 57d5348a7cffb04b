//! `gemmc second-opinion`: every PTX file of a folder with its launch files, on the interpreter and on a GPU; and
//! random arguments of tensor maps, which the GPU's driver accepts or rejects.

use std::fs;
use std::path::Path;

use ptx_gemm::{Device, DeviceKind};
use ptx_gemm_check::exec::{
    Element, LEVELS, LaunchFile, MapDisagreement, MapOpinion, Opinion, launches_of, second_opinion,
};
use serde_json::{Value, json};

use crate::cli::SecondOpinion;
use crate::reply::{Failure, Reply, Status};

/// Argument sets of tensor maps that are tried, and the seed that makes them.
const MAPS: usize = 1000;
const SEED: u64 = 1;
/// The number of disagreements that the text shows.
const SHOWN: usize = 4;

pub(crate) fn run(args: &SecondOpinion) -> Result<Reply, Failure> {
    let device: Device = args.device.open(0)?;
    let gpu = (device.kind() != DeviceKind::Interpreter).then_some(&device);
    let folder = &args.folder;
    let failed = |path: &Path, error: String| Failure::refused("file", format!("{}: {error}", path.display()));
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| failed(path, error.to_string()));
    let mut text = String::new();
    let mut pairs = Vec::new();
    let (mut broken, mut uncompared) = (0, 0);
    for (launch, paths) in launches_of(folder).map_err(|error| failed(folder, error.to_string()))? {
        let file = LaunchFile::parse(&read(&launch)?).map_err(|error| failed(&launch, error))?;
        for ptx in paths {
            let opinion = second_opinion(&read(&ptx)?, &file, gpu).map_err(|error| failed(&ptx, error.to_string()))?;
            match opinion.elements {
                0 => uncompared += 1,
                _ => broken += usize::from(!opinion.holds()),
            }
            let (launch, ptx) = (file_name(&launch), file_name(&ptx));
            text.push_str(&told(&launch, &ptx, &opinion));
            pairs.push(as_json(&launch, &ptx, &opinion));
        }
    }
    if pairs.is_empty() {
        let what = "no launch file NAME.json with a PTX file NAME.ptx is in this folder";
        return Err(failed(folder, what.into()));
    }
    text.push_str(&format!("{} pairs on {device}, {broken} of them disagree\n", pairs.len()));
    if uncompared > 0 {
        text.push_str(&format!("NOT COMPARED: {uncompared} of them, which show no element of any buffer\n"));
    }
    let maps = gpu.map(|gpu| MapOpinion::on_gpu(gpu, SEED, MAPS)).transpose()?;
    let reply = conclude(text, &device.to_string(), pairs, (broken, uncompared), maps.as_ref());
    if let Some(path) = &args.out {
        let written = fs::write(path, serde_json::to_string_pretty(&reply.json).unwrap_or_default() + "\n");
        written.map_err(|error| failed(path, error.to_string()))?;
    }
    Ok(reply)
}

fn conclude(
    mut text: String,
    device: &str,
    pairs: Vec<Value>,
    (broken, uncompared): (usize, usize),
    maps: Option<&MapOpinion>,
) -> Reply {
    if let Some(maps) = maps {
        text.push_str(&maps_told(maps));
    }
    let status = match broken == 0 && maps.is_none_or(MapOpinion::holds) {
        false => Status::Wrong,
        true if uncompared > 0 => Status::Uncompared,
        true => Status::Fine,
    };
    let json = json!({ "ok": status == Status::Fine, "device": device, "pairs": pairs, "tensor_maps": maps.map(maps_as_json) });
    Reply { text, json, status }
}

fn maps_told(maps: &MapOpinion) -> String {
    let MapOpinion { sets, accepted, refused, disagreements } = maps;
    let mut text = format!(
        "tensor maps: {sets} argument sets, {accepted} accepted by both, {refused} refused by both, {} disagree\n",
        disagreements.len()
    );
    for MapDisagreement { args, here } in disagreements.iter().take(SHOWN) {
        let which = match here {
            Some(error) => format!("accepted by the driver, refused here ({error})"),
            None => "refused by the driver, accepted here".into(),
        };
        text.push_str(&format!("    {which}: {args:?}\n"));
    }
    text
}

fn maps_as_json(maps: &MapOpinion) -> Value {
    let disagreement = |MapDisagreement { args, here }: &MapDisagreement| {
        json!({
            "accepted_by": if here.is_some() { "driver" } else { "interpreter" },
            "refused_for": here.as_ref().map(ToString::to_string),
            "data_type": args.data_type,
            "rank": args.rank,
            "address": args.address,
            "dims": args.dims,
            "strides": args.strides,
            "box": args.box_dims,
            "element_strides": args.element_strides,
            "interleave": args.interleave,
            "swizzle": args.swizzle,
            "l2_promotion": args.l2_promotion,
            "oob_fill": args.oob_fill,
        })
    };
    json!({
        "sets": maps.sets,
        "accepted": maps.accepted,
        "refused": maps.refused,
        "disagreements": maps.disagreements.iter().map(disagreement).collect::<Vec<Value>>(),
    })
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn level(level: Option<u32>) -> String {
    level.map_or("default".into(), |level| format!("O{level}"))
}

fn told(launch: &str, ptx: &str, opinion: &Opinion) -> String {
    let mut line = format!("{ptx:34} {launch:24} {:7} elements", opinion.elements);
    match &opinion.interpreter {
        Ok(orders) => line.push_str(&format!("  {orders} orders agree")),
        Err(what) => line.push_str(&format!("  interpreter: {what}")),
    }
    for (name, found) in LEVELS.iter().zip(&opinion.levels) {
        let share =
            if found.share > 0.0 && found.share.is_finite() { format!(" ({:.2})", found.share) } else { String::new() };
        line.push_str(&format!("  {} {}{share}", level(*name), found.elements));
    }
    line.push('\n');
    for (name, found) in LEVELS.iter().zip(&opinion.levels) {
        if let Some(refused) = &found.refused {
            line.push_str(&format!("    {}: {refused}\n", level(*name)));
        }
        if found.broken > 0 {
            line.push_str(&format!("    {}: the rule is {}, {} break it\n", level(*name), opinion.rule, found.broken));
        }
        for Element { buffer, index, here, there } in &found.examples {
            line.push_str(&format!("        {buffer}[{index}] is {here} here and {there} there\n"));
        }
    }
    line
}

fn as_json(launch: &str, ptx: &str, opinion: &Opinion) -> Value {
    let gpu = LEVELS.iter().zip(&opinion.levels).map(|(name, found)| {
        let share = if found.share.is_finite() { json!(found.share) } else { json!("beyond") };
        let example = |found: &Element| {
            let Element { buffer, index, here, there } = found;
            json!({ "buffer": buffer, "index": index, "here": here, "there": there })
        };
        json!({
            "level": level(*name),
            "differing": found.elements,
            "share": share,
            "broken": found.broken,
            "examples": found.examples.iter().map(example).collect::<Vec<Value>>(),
            "refused": found.refused,
        })
    });
    json!({
        "ptx": ptx,
        "launch": launch,
        "ok": opinion.holds(),
        "rule": opinion.rule,
        "elements": opinion.elements,
        "orders": opinion.interpreter.as_ref().ok(),
        "violation": opinion.interpreter.as_ref().err(),
        "gpu": gpu.collect::<Vec<Value>>(),
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use ptx_gemm::interp::{TensorMap, TensorMapArgs, random_tensor_maps};
    use ptx_gemm_check::exec::MapOpinion;

    use super::{conclude, json};
    use crate::reply::{Reply, Status};

    fn with(driver: impl Fn(&TensorMapArgs) -> bool) -> Reply {
        let Ok(maps) = MapOpinion::of(&random_tensor_maps(1, 1000), |args| Ok::<bool, Infallible>(driver(args)));
        conclude("1 pairs\n".into(), "a driver", vec![json!({})], (0, 0), Some(&maps))
    }

    #[test]
    fn a_driver_that_agrees_is_counted() {
        let reply = with(|args| TensorMap::encode(args).is_ok());
        assert_eq!(reply.status, Status::Fine);
        let maps = &reply.json["tensor_maps"];
        let (accepted, refused) = (&maps["accepted"], &maps["refused"]);
        let line = format!(
            "tensor maps: 1000 argument sets, {accepted} accepted by both, {refused} refused by both, 0 disagree\n"
        );
        assert_eq!(reply.text, format!("1 pairs\n{line}"));
        assert_eq!(accepted.as_u64().unwrap() + refused.as_u64().unwrap(), 1000);
    }

    #[test]
    fn a_disagreement_is_told_and_fails() {
        // It does not know swizzles, and accepts any interleave.
        let reply = with(|args| {
            args.swizzle == 0 && TensorMap::encode(&TensorMapArgs { interleave: 0, ..args.clone() }).is_ok()
        });
        assert_eq!((reply.status, &reply.json["ok"]), (Status::Wrong, &json!(false)));
        let all = reply.json["tensor_maps"]["disagreements"].as_array().unwrap();
        assert!(
            reply
                .text
                .contains(&format!(" {} disagree\n    refused by the driver, accepted here: TensorMapArgs", all.len()))
        );
        assert_eq!(reply.text.matches("TensorMapArgs").count(), 4);
        let by = |who: &str| all.iter().filter(|one| one["accepted_by"] == who).count();
        assert!(by("driver") > 0 && by("interpreter") > 0, "{all:?}");
        assert!(all.iter().all(|one| one["refused_for"].is_null() == (one["accepted_by"] == "interpreter")));
    }
}
