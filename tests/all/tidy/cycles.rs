//! Modules of a crate import each other in one direction.
//!
//! The nodes are source files. A file depends on every file that defines something it names, in a `use` or in a path
//! written out; re-exported names lead to where they are defined. A module and the modules inside it belong together:
//! passes use the types of the module around them, and that module calls its passes. So a cycle through such a pair
//! counts only if it needs just one of the two directions, inward or outward. Cycles between siblings always count, and
//! so do those through another folder.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenTree};

use super::{none, sources, without_tests};

/// The path of a module from the root of its crate.
type Path = Vec<String>;
type Graph = BTreeMap<Path, BTreeSet<Path>>;

/// What a file imports, and every path that it names.
#[derive(Default)]
struct Names {
    /// Names that `use` brings into the module, with their paths.
    aliases: BTreeMap<String, Path>,
    paths: BTreeSet<Path>,
}

/// The modules of one crate.
#[derive(Default)]
struct Crate {
    modules: BTreeMap<Path, Names>,
}

impl Crate {
    fn add(&mut self, file: &str, tokens: &[TokenTree]) {
        let mut module: Path = file.trim_end_matches(".rs").split('/').map(str::to_string).collect();
        if module.last().is_some_and(|last| ["lib", "main", "mod"].contains(&last.as_str())) {
            module.pop();
        }
        let names = self.modules.entry(module).or_default();
        read(tokens, 0, names);
    }

    /// The file that defines what `path` names in `module`, if that is a file of this crate and more than a module.
    fn defines(&self, module: &[String], path: &[String], depth: usize) -> Option<Path> {
        // Two modules that re-export each other's names define nothing.
        let depth = depth.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => return self.walk(Vec::new(), rest, depth),
            "self" => return self.walk(module.to_vec(), rest, depth),
            "super" => return self.walk(module.split_last()?.1.to_vec(), rest, depth),
            _ => {}
        }
        let inner = [module, std::slice::from_ref(first)].concat();
        match self.modules.get(module)?.aliases.get(first) {
            // `use verify::verify`: only the last word is the function.
            _ if self.modules.contains_key(&inner) && !rest.is_empty() => self.walk(inner, rest, depth),
            Some(path) if path.first() == Some(first) && path.len() == 1 => None,
            Some(path) => self.defines(module, &[path, rest].concat(), depth),
            None => None,
        }
    }

    /// The same for a path relative to a known module.
    fn walk(&self, module: Path, path: &[String], depth: usize) -> Option<Path> {
        let (first, rest) = path.split_first()?;
        if first == "super" {
            return self.walk(module.split_last()?.1.to_vec(), rest, depth);
        }
        let names = self.modules.get(&module)?;
        let inner = [&module[..], std::slice::from_ref(first)].concat();
        if self.modules.contains_key(&inner) && (!rest.is_empty() || !names.aliases.contains_key(first)) {
            return self.walk(inner, rest, depth);
        }
        match names.aliases.get(first) {
            Some(alias) => {
                let path = [alias, rest].concat();
                // Names from other crates are not found; a re-exported module is entered.
                self.defines(&module, &path, depth)
            }
            None => Some(module),
        }
    }

    /// The dependencies between files.
    fn graph(&self) -> Graph {
        let mut graph = Graph::new();
        for (module, names) in &self.modules {
            let found = names.paths.iter().filter_map(|path| self.defines(module, path, 16));
            graph.insert(module.clone(), found.filter(|other| other != module).collect());
        }
        graph
    }
}

/// Reads the items of a file, `inner` modules deep inside it.
fn read(tokens: &[TokenTree], inner: usize, names: &mut Names) {
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            // `impl Trait + use<'a>` imports nothing.
            TokenTree::Ident(word) if word == "use" && !tokens.get(at + 1).is_some_and(|token| is(token, '<')) => {
                let end = tokens[at..].iter().position(|token| is(token, ';')).map_or(tokens.len(), |end| at + end);
                imports(&tokens[at + 1..end], &[], inner, names);
                at = end;
            }
            TokenTree::Ident(word) if word == "mod" => {
                // One inside the file is a part of it: its `super` is this module.
                if let Some(TokenTree::Group(body)) = tokens.get(at + 2) {
                    read(&body.stream().into_iter().collect::<Vec<_>>(), inner + 1, names);
                }
                at += 2;
            }
            TokenTree::Ident(_) => {
                let (path, length) = path(&tokens[at..]);
                if path.len() > 1 {
                    names.paths.extend(outward(path, inner));
                }
                at += length - 1;
            }
            TokenTree::Group(group) => read(&group.stream().into_iter().collect::<Vec<_>>(), inner, names),
            _ => {}
        }
        at += 1;
    }
}

/// The path that begins here, and how many tokens it has.
fn path(tokens: &[TokenTree]) -> (Path, usize) {
    let (mut path, mut at) = (Path::new(), 0);
    while let Some(TokenTree::Ident(word)) = tokens.get(at) {
        path.push(word.to_string());
        at += 1;
        let separated = tokens[at..].iter().take(2).filter(|token| is(token, ':')).count() == 2;
        if !separated || !matches!(tokens.get(at + 2), Some(TokenTree::Ident(_))) {
            break;
        }
        at += 2;
    }
    (path, at.max(1))
}

/// The part of a path in a module inside a file, relative to the file's own module; `None` if it stays inside.
fn outward(mut path: Path, inner: usize) -> Option<Path> {
    for _ in 0..inner {
        match path.first().map(String::as_str) {
            Some("super") => drop(path.remove(0)),
            Some("crate") => break,
            _ => return None,
        }
    }
    (!path.is_empty()).then_some(path)
}

/// One tree of imports, after the words in `base`.
fn imports(tokens: &[TokenTree], base: &[String], inner: usize, names: &mut Names) {
    for tree in tokens.split(|token| is(token, ',')) {
        let words = tree.iter().filter_map(|token| match token {
            TokenTree::Ident(word) => Some(word.to_string()),
            _ => None,
        });
        let words: Vec<String> = words.collect();
        if let Some(TokenTree::Group(group)) = tree.last()
            && group.delimiter() == Delimiter::Brace
        {
            imports(&group.stream().into_iter().collect::<Vec<_>>(), &[base, &words].concat(), inner, names);
            continue;
        }
        if tree.last().is_some_and(|token| is(token, '*')) {
            names.paths.extend(outward([base, &words, &["*".into()]].concat(), inner));
            continue;
        }
        let renamed = words.iter().position(|word| word == "as");
        let mut full = [base, &words[..renamed.unwrap_or(words.len())]].concat();
        if full.last().is_some_and(|last| last == "self") && full.len() > 1 {
            full.pop();
        }
        let Some(name) = words[renamed.map_or(0, |at| at + 1)..].last().filter(|word| *word != "self").or(full.last())
        else {
            continue;
        };
        let name = name.clone();
        let Some(full) = outward(full, inner) else { continue };
        if inner == 0 {
            names.aliases.insert(name, full.clone());
        }
        names.paths.insert(full);
    }
}

fn is(token: &TokenTree, punct: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == punct)
}

/// The shortest path from `from` back to itself, if there is one.
fn cycle(graph: &Graph, from: &Path) -> Option<Vec<Path>> {
    let mut ways: Vec<Vec<Path>> = vec![vec![from.clone()]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            for next in way.last().and_then(|last| graph.get(last)).into_iter().flatten() {
                if next == from {
                    return Some(way);
                }
                if seen.insert(next.clone()) {
                    longer.push([&way[..], std::slice::from_ref(next)].concat());
                }
            }
        }
        ways = longer;
    }
    None
}

/// The shortest cycle through each file that is in one, each once. `a` belongs to `b` if it is inside it.
fn cycles(graph: &Graph) -> BTreeSet<String> {
    let inside = |a: &Path, b: &Path| a.len() > b.len() && a.starts_with(b);
    let without = |dropped: &dyn Fn(&Path, &Path) -> bool| -> Graph {
        let kept = |from: &Path, to: &BTreeSet<Path>| to.iter().filter(|to| !dropped(from, to)).cloned().collect();
        graph.iter().map(|(from, to)| (from.clone(), kept(from, to))).collect()
    };
    let (inward, outward) = (without(&|from, to| inside(from, to)), without(&|from, to| inside(to, from)));
    let mut found = BTreeSet::new();
    for graph in [inward, outward] {
        for mut way in graph.keys().filter_map(|from| cycle(&graph, from)) {
            let first = way.iter().enumerate().min_by_key(|(_, file)| (*file).clone()).map_or(0, |(at, _)| at);
            way.rotate_left(first);
            way.push(way[0].clone());
            let words = |file: &Path| if file.is_empty() { "the root".into() } else { file.join("::") };
            found.insert(way.iter().map(words).collect::<Vec<_>>().join(" -> "));
        }
    }
    found
}

#[test]
fn modules_import_each_other_in_one_direction() {
    let mut crates: BTreeMap<String, Crate> = BTreeMap::new();
    for source in sources().into_iter().filter(|source| !source.is_test()) {
        let Some((folder, file)) = source.path.split_once("src/") else { continue };
        crates.entry(folder.trim_end_matches('/').into()).or_default().add(file, &without_tests(source.stream()));
    }
    // All but the tests and the examples.
    assert_eq!(crates.len(), super::ARROWS.len() - 2, "crates with sources: {:?}", crates.keys());
    let named = |(name, modules): (&String, &Crate)| {
        let found = cycles(&modules.graph());
        found.into_iter().map(|cycle| format!("{name}: {cycle}")).collect::<Vec<_>>()
    };
    none("modules that import each other", crates.iter().flat_map(named));
}

#[test]
fn what_a_cycle_is() {
    let check = |files: &[(&str, &str)], want: &[&str]| {
        let mut modules = Crate::default();
        modules.add("lib.rs", &[]);
        for (file, text) in files {
            modules.add(file, &without_tests(text.parse().unwrap()));
        }
        let found = cycles(&modules.graph());
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), want, "{files:?}");
    };
    let a = ("a.rs", "use crate::b::B; pub struct A(B);");
    check(&[a, ("b.rs", "pub struct B;")], &[]);
    check(&[a, ("b.rs", "use super::a; pub struct B(a::A);")], &["a -> b -> a"]);
    check(&[a, ("b.rs", "pub struct B; fn f(_: &crate::a::A) {}")], &["a -> b -> a"]);
    check(&[a, ("b.rs", "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }")], &[]);
    check(&[a, ("b.rs", "pub struct B; mod inner { use super::super::a::A; }")], &["a -> b -> a"]);
    check(&[a, ("b.rs", "pub struct B(inner::A); mod inner { use super::B; pub struct A; }")], &[]);
    // A re-exported name belongs to the file that defines it.
    let root = ("lib.rs", "mod a; mod b; pub use a::A; pub use b::{self, B as Renamed};");
    check(&[root, ("a.rs", "pub struct A;"), ("b.rs", "pub struct B(crate::A);")], &[]);
    check(&[root, ("a.rs", "pub struct A(crate::Renamed);"), ("b.rs", "pub struct B(crate::A);")], &["a -> b -> a"]);
    // A module and what is inside it belong together, siblings do not.
    let parent = ("p/mod.rs", "mod x; mod y; pub struct P; fn f() { x::run(); y::run(); }");
    let x = ("p/x.rs", "use super::P; pub fn run() {}");
    check(&[parent, x, ("p/y.rs", "use super::{P, x}; pub fn run() { x::run() }")], &[]);
    let both = ("p/x.rs", "use super::y; pub fn run() { y::run() }");
    check(&[parent, both, ("p/y.rs", "pub fn run() { super::x::run() }")], &["p::x -> p::y -> p::x"]);
    // Files outside are not part of it either, whichever way the cycle enters the folder.
    check(
        &[parent, x, ("p/y.rs", "pub fn run() { crate::q::f() }"), ("q.rs", "pub fn f() { crate::p::P; }")],
        &["p -> p::y -> q -> p"],
    );
    let q = ("q.rs", "use crate::p::x; pub fn f() { x::run() }");
    check(&[("p/mod.rs", "mod x; use crate::q; pub struct P(q::f);"), x, q], &["p -> q -> p::x -> p"]);
}
