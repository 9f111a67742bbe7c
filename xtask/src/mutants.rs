//! Planted bugs: each is put into a copy of the code and must be caught by the level of tests that is
//! there to catch it. A level that catches none of its bugs proves nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

/// How much longer than without a bug a level may take with one; if it then still runs, it has noticed it in its way.
const PATIENCE: u32 = 4;
/// How long it may take at least.
const LEAST: Duration = Duration::from_secs(60);

/// The list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    bug: Vec<Bug>,
}

/// One planted bug.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bug {
    /// What it is, in a few words.
    name: String,
    /// The file that it is in.
    file: String,
    /// The text that is there, exactly once.
    find: String,
    /// The text that takes its place.
    replace: String,
    /// The packages whose tests must catch it, each by itself.
    caught_by: Vec<String>,
}

/// Plants each bug whose name contains `filter`, one after the other.
pub(crate) fn run(root: &Path, filter: &str) -> Result<()> {
    let mut bugs = read(root)?;
    bugs.retain(|bug| bug.name.contains(filter));
    ensure!(!bugs.is_empty(), "no planted bug has {filter:?} in its name");
    let place = root.join("target/mutants");
    let tree = place.join("tree");
    copy(root, &tree)?;
    let levels: BTreeSet<_> = bugs.iter().flat_map(|bug| bug.caught_by.iter().cloned()).collect();
    let mut patience = BTreeMap::new();
    for level in levels {
        eprintln!("{level} without a bug");
        let (verdict, took) = test(&tree, &place, &level, Duration::MAX)?;
        ensure!(
            verdict == Verdict::Passes,
            "{level} without any bug: {verdict:?}; see `cargo test -p {level}` in {}",
            tree.display()
        );
        patience.insert(level, LEAST.max(took * PATIENCE));
    }
    let mut missed = 0_usize;
    for bug in &bugs {
        let file = tree.join(&bug.file);
        let sound = fs::read_to_string(&file)?;
        fs::write(&file, sound.replacen(&bug.find, &bug.replace, 1))?;
        for level in &bug.caught_by {
            let began = Instant::now();
            let verdict = test(&tree, &place, level, patience[level]).map(|(verdict, _)| verdict);
            let said = match &verdict {
                Ok(Verdict::Fails) => "caught",
                Ok(Verdict::Hangs) => "caught (hangs)",
                Ok(Verdict::Passes) => "NOT CAUGHT",
                Ok(Verdict::DoesNotBuild) | Err(_) => "DOES NOT BUILD",
            };
            missed += usize::from(!matches!(verdict, Ok(Verdict::Fails | Verdict::Hangs)));
            println!("{said:<14} {level:<20} {} ({} s)", bug.name, began.elapsed().as_secs());
        }
        fs::write(&file, sound)?;
    }
    println!("{} planted bugs", bugs.len());
    ensure!(missed == 0, "{missed} not caught");
    Ok(())
}

/// The list, checked against the code: each text stands exactly once in its file.
#[cfg(test)]
fn faults(root: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for bug in read(root)? {
        let text = fs::read_to_string(root.join(&bug.file)).with_context(|| bug.file.clone())?;
        let times = text.matches(&bug.find).count();
        if times != 1 {
            faults.push(format!("xtask/mutants.toml: {:?}: its text stands {times} times in {}", bug.name, bug.file));
        }
        if bug.find == bug.replace || bug.caught_by.is_empty() {
            faults.push(format!("xtask/mutants.toml: {:?} changes nothing, or nobody is to catch it", bug.name));
        }
    }
    Ok(faults)
}

fn read(root: &Path) -> Result<Vec<Bug>> {
    let text = fs::read_to_string(root.join("xtask/mutants.toml"))?;
    let list: List = toml::from_str(&text).context("xtask/mutants.toml")?;
    Ok(list.bug)
}

/// Makes `tree` hold what the repository holds: leaves alone what is there already, so that little is rebuilt, and
/// removes what the repository no longer has, which cargo would take for a test.
fn copy(root: &Path, tree: &Path) -> Result<()> {
    let listed = Command::new("git").current_dir(root).args(["ls-files", "-co", "--exclude-standard"]).output()?;
    ensure!(listed.status.success(), "git ls-files failed");
    let mut kept = BTreeSet::new();
    for name in String::from_utf8(listed.stdout)?.lines() {
        let (from, to) = (root.join(name), tree.join(name));
        let Ok(text) = fs::read(&from) else { continue };
        kept.insert(to.clone());
        if fs::read(&to).is_ok_and(|there| there == text) {
            continue;
        }
        fs::create_dir_all(to.parent().context("a file without a folder")?)?;
        fs::write(&to, text)?;
    }
    remove_others(tree, &kept)
}

/// Removes the files below `folder` that are not in `kept`, and the folders that are empty then: the workspace takes
/// every folder of some for a package.
fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            remove_others(&path, kept)?;
            if fs::read_dir(&path)?.next().is_none() {
                fs::remove_dir(&path)?;
            }
        } else if !kept.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Passes,
    Fails,
    Hangs,
    DoesNotBuild,
}

/// The tests of package `level`, built first, so that a bug that the compiler sees does not count; and how
/// long they ran.
fn test(tree: &Path, place: &Path, level: &str, patience: Duration) -> Result<(Verdict, Duration)> {
    if !cargo(tree, place, &["test", "--locked", "-p", level, "--no-run"]).spawn()?.wait()?.success() {
        return Ok((Verdict::DoesNotBuild, Duration::ZERO));
    }
    let mut child = cargo(tree, place, &["test", "--locked", "-p", level]).spawn()?;
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((if status.success() { Verdict::Passes } else { Verdict::Fails }, began.elapsed()));
        }
        if began.elapsed() > patience {
            stop(&mut child)?;
            return Ok((Verdict::Hangs, began.elapsed()));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Kills `child` with all that it started: the tests are not cargo itself.
fn stop(child: &mut Child) -> Result<()> {
    let group = format!("-{}", child.id());
    ensure!(Command::new("kill").args(["-KILL", "--", &group]).status()?.success(), "kill failed");
    child.wait()?;
    Ok(())
}

fn cargo(tree: &Path, place: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(tree).args(args).env("CARGO_TARGET_DIR", place.join("target"));
    command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command
}

/// What to do with the arguments after the verb.
pub(crate) fn main(root: &Path, args: &[&str]) -> Result<()> {
    match args {
        [] => run(root, ""),
        [filter] => run(root, filter),
        _ => bail!("mutants takes at most one word that the bugs' names must contain"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_holds_what_the_repository_holds_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let (root, tree) = (place.path().join("root"), place.path().join("tree"));
        fs::create_dir_all(root.join("tests")).unwrap();
        fs::write(root.join("tests/now.rs"), "new").unwrap();
        assert!(Command::new("git").current_dir(&root).args(["init", "-q"]).status().unwrap().success());
        fs::create_dir_all(tree.join("tests/was")).unwrap();
        for stale in ["tests/now.rs", "tests/was.rs", "tests/was/main.rs"] {
            fs::write(tree.join(stale), "old").unwrap();
        }
        copy(&root, &tree).unwrap();
        assert_eq!(fs::read_to_string(tree.join("tests/now.rs")).unwrap(), "new");
        assert!(!tree.join("tests/was.rs").exists());
        assert!(!tree.join("tests/was").exists());
    }

    #[test]
    fn every_bug_of_the_list_can_be_planted() {
        let root = crate::root().unwrap();
        assert_eq!(faults(&root).unwrap(), Vec::<String>::new());
        assert!(read(&root).unwrap().len() >= 20);
    }
}
