//! `gemmc completions` and `gemmc man`: what clap makes of the arguments.

use clap::CommandFactory;
use serde_json::json;

use crate::cli::{Cli, Completions, Man};
use crate::reply::{Failure, Reply};

pub(crate) fn run(args: &Completions) -> Result<Reply, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "gemmc", &mut script);
    let text = String::from_utf8_lossy(&script).into_owned();
    let json = json!({ "shell": args.shell.to_string(), "script": text });
    Ok(Reply::fine(text, json))
}

pub(crate) fn man(args: &Man) -> Result<Reply, Failure> {
    let mut all = Cli::command();
    all.build();
    if let Some(folder) = &args.folder {
        let failed = |error: std::io::Error| Failure::refused("file", format!("{}: {error}", folder.display()));
        std::fs::create_dir_all(folder).map_err(failed)?;
        clap_mangen::generate_to(all, folder).map_err(failed)?;
        let text = format!("wrote the manual pages to {}\n", folder.display());
        return Ok(Reply::fine(text, json!({ "folder": folder })));
    }
    let command = match &args.command {
        None => all,
        Some(name) => all.find_subcommand(name).cloned().ok_or_else(|| unknown(name, &all))?,
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page).map_err(|error| Failure::refused("man", error.to_string()))?;
    let text = String::from_utf8_lossy(&page).into_owned();
    Ok(Reply::fine(text.clone(), json!({ "page": text })))
}

fn unknown(name: &str, all: &clap::Command) -> Failure {
    let commands: Vec<&str> = all.get_subcommands().filter(|c| !c.is_hide_set()).map(clap::Command::get_name).collect();
    Failure::refused("usage", format!("`{name}` is not a command; the commands are {}", commands.join(", ")))
}
