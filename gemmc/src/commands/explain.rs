//! `gemmc explain`: the language reference, one clause or topic at a time, and what a clause changes in the PTX.

use ptx_gemm_check::Effect;
use ptx_gemm_check::figures::table;
use ptx_gemm_dsl::reference::{self, Entry, State, TOPICS, Topic, schedules, state};
use ptx_gemm_dsl::table::{ALL, Argument, Info, Values};
use serde_json::{Value, json};

use crate::cli::Explain;
use crate::reply::{Failure, Reply, Status};

/// Opcodes of a change that are shown.
const MAX_SHOWN: usize = 8;

pub(crate) fn run(args: &Explain) -> Result<Reply, Failure> {
    if args.markdown {
        return Ok(Reply::fine(reference::markdown(), Value::Null));
    }
    let Some(name) = &args.name else {
        let text = format!("{}\n`gemmc explain NAME` says more of each.\n", reference::overview());
        let clauses: Vec<Value> = ALL.iter().map(summary).collect();
        let topics: Vec<Value> = TOPICS.iter().map(|t| json!({ "name": t.name, "summary": t.summary })).collect();
        return Ok(Reply::fine(text, json!({ "clauses": clauses, "topics": topics })));
    };
    match reference::find(name) {
        Ok(Entry::Clause(info)) => clause(info),
        Ok(Entry::Topic(topic)) => about(topic),
        Err(near) => Err(unknown(name, near)),
    }
}

fn unknown(name: &str, near: Option<&str>) -> Failure {
    let shown: String = name.chars().take(40).collect();
    let help = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`gemmc explain` lists the clauses and topics".into(),
    };
    let message = format!("`{shown}` is neither a clause nor a topic");
    Failure::Other { clause: "explain", message, help: Some(help), status: Status::Refused }
}

fn summary(info: &Info) -> Value {
    json!({ "name": info.name, "summary": info.summary, "state": state(info).to_string() })
}

fn clause(info: &Info) -> Result<Reply, Failure> {
    let (change, effect) = changes(info)?;
    let costs = TOPICS.iter().filter(|topic| topic.clause == info.name).filter_map(|topic| topic.costs);
    let costs: String = costs.map(|costs| format!("{}\n", costs())).collect();
    let text = format!("{}: {}\n\n{}\n{costs}{change}", info.name, info.summary, reference::clause(info));
    Ok(Reply::fine(text, object(info, effect.as_ref())))
}

fn object(info: &Info, effect: Option<&Effect>) -> Value {
    let [base, example] = schedules(info);
    let arguments: Vec<Value> = info.arguments.iter().map(argument).collect();
    json!({
        "name": info.name,
        "summary": info.summary,
        "syntax": info.signature,
        "meaning": info.meaning.split_whitespace().collect::<Vec<_>>().join(" "),
        "default": info.default,
        "arguments": arguments,
        "state": state(info).to_string(),
        "without": base,
        "example": example,
        "effect": effect,
    })
}

fn argument(Argument { name, values, .. }: &Argument) -> Value {
    let mut json = json!({ "name": name, "values": values.to_string() });
    match values {
        Values::Range(range) | Values::Powers(range) | Values::Multiples(_, range) => {
            json["least"] = (*range.start()).into();
            json["most"] = (*range.end()).into();
        }
        Values::OneOf(all) => json["one_of"] = (*all).into(),
        Values::Words(words) => json["words"] = words().into_iter().map(|(word, _)| word).collect(),
        Values::Text(_) => {}
    }
    json
}

/// What a clause changes in the PTX of its example, computed now.
fn changes(info: &Info) -> Result<(String, Option<Effect>), Failure> {
    if state(info) == State::NotYet {
        return Ok(("It is not implemented yet, and changes nothing in the PTX.\n".into(), None));
    }
    let [base, example] = schedules(info);
    let effect = Effect::of([&base, &example])?;
    let before = base.lines().collect::<Vec<_>>().join(" ");
    let head = format!("In the PTX of `{before}`, {} ", info.example);
    if effect.is_none() {
        return Ok((format!("{head}changes nothing.\n"), Some(effect)));
    }
    if effect.opcodes.is_empty() {
        let shown: String = effect.changed.iter().take(MAX_SHOWN).map(|line| format!("    {line}\n")).collect();
        let more = effect.changed.len().saturating_sub(MAX_SHOWN);
        let more = if more > 0 { format!("and {more} more\n") } else { String::new() };
        return Ok((
            format!("{head}changes no opcode, but lines (registers by number):\n\n{shown}{more}"),
            Some(effect),
        ));
    }
    let [lines, now] = effect.lines;
    let mut text = format!("{head}makes {now} lines of {lines}:\n\n");
    let row =
        |(opcode, [without, with]): &(String, [usize; 2])| vec![opcode.clone(), without.to_string(), with.to_string()];
    text.push_str(&table(["opcode", "without", "with"], effect.opcodes.iter().take(MAX_SHOWN).map(row)));
    if effect.opcodes.len() > MAX_SHOWN {
        text.push_str(&format!("and {} more opcodes\n", effect.opcodes.len() - MAX_SHOWN));
    }
    Ok((text, Some(effect)))
}

fn about(topic: &Topic) -> Result<Reply, Failure> {
    let mut text = format!("{}: {}\n\n", topic.name, topic.summary);
    let mut json = json!({ "name": topic.name, "summary": topic.summary, "text": (topic.text)() });
    if let Some(info) = topic.info() {
        let (change, effect) = changes(info)?;
        let costs = topic.costs.map(|costs| format!("{}\n", costs())).unwrap_or_default();
        text.push_str(&format!("{}\n{costs}{}\n{change}", (topic.text)(), reference::clause(info)));
        json["clause"] = object(info, effect.as_ref());
    }
    Ok(Reply::fine(text, json))
}
