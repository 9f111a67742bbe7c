//! The rules that no other tool knows.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

/// Longest Rust file, in lines.
const MAX_LINES: usize = 500;
/// Longest main of a function, in lines.
const MAX_MAIN_LINES: usize = 50;
/// What unfinished work looks like. Written in halves, so that this file does not match itself.
/// A test that is switched off says why in its attribute, so only the bare form is one.
const LEFTOVERS: [(&str, &str); 4] = [("to", "do!("), ("unimple", "mented!("), ("FIX", "ME"), ("#[ign", "ore]")];

pub(crate) fn run(root: &Path) -> Result<()> {
    let mut faults = crate::layers::faults(root)?;
    let mut files = Vec::new();
    collect(root, &mut files)?;
    for path in &files {
        let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let shown = path.strip_prefix(root).unwrap_or(path);
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => faults.extend(rust_faults(shown, &text)),
            Some("md") => faults.extend(link_faults(root, path, shown, &text)),
            Some(_) | None => {}
        }
    }
    faults.extend(crate::promises::faults(root, &files)?);
    if faults.is_empty() {
        eprintln!("tidy: {} files", files.len());
        return Ok(());
    }
    for fault in &faults {
        eprintln!("tidy: {fault}");
    }
    bail!("{} faults", faults.len())
}

/// All source and documentation files, without what is built or hidden.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with('.') || name == "target" || name == "node_modules" {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else if name.ends_with(".rs") || name.ends_with(".md") {
            files.push(path);
        }
    }
    files.sort();
    Ok(())
}

fn rust_faults(path: &Path, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let lines = text.lines().count();
    if lines > MAX_LINES {
        faults.push(format!("{}: {lines} lines; split it by meaning ({MAX_LINES} at most)", path.display()));
    }
    if path.starts_with("functions") && path.ends_with("src/main.rs") && lines > MAX_MAIN_LINES {
        faults.push(format!("{}: {lines} lines; a main is thin ({MAX_MAIN_LINES} at most)", path.display()));
    }
    for (number, line) in (1..).zip(text.lines()) {
        for (head, tail) in LEFTOVERS {
            if line.contains(&format!("{head}{tail}")) {
                faults.push(format!("{}:{number}: unfinished work: {}", path.display(), line.trim()));
            }
        }
    }
    faults
}

/// Links to files of the project must lead somewhere.
fn link_faults(root: &Path, path: &Path, shown: &Path, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for part in text.split("](").skip(1) {
        let Some(target) = part.split([')', ' ']).next() else { continue };
        let target = target.split('#').next().unwrap_or_default();
        if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let from = path.parent().unwrap_or(root);
        if !from.join(target).exists() {
            faults.push(format!("{}: the link to {target} leads nowhere", shown.display()));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_and_leftovers_are_found() {
        let long = "x\n".repeat(MAX_LINES + 1);
        assert_eq!(rust_faults(Path::new("a.rs"), &long).len(), 1);
        let leftover = format!("fn f() {{ {}{} }}", "to", "do!()");
        assert_eq!(rust_faults(Path::new("a.rs"), &leftover).len(), 1);
        assert!(rust_faults(Path::new("a.rs"), "fn f() {}\n").is_empty());
    }
}
