//! Programs that start others, change the folder, or run code in another language.

use super::{Command, MAX_FOLDERS, Script, words::pieces};
use crate::policy::{
    glob::{Atom, Glob, as_text, literal},
    path::{self, Places},
};

/// Words after a wrapper that are looked at.
const MAX_WRAPPED: usize = 128;
/// Start the command that their last words are.
const WRAPPERS: [&str; 43] = [
    "sudo",
    "doas",
    "env",
    "nohup",
    "setsid",
    "command",
    "exec",
    "builtin",
    "time",
    "nice",
    "ionice",
    "chrt",
    "taskset",
    "timeout",
    "stdbuf",
    "xargs",
    "parallel",
    "chroot",
    "unshare",
    "nsenter",
    "strace",
    "ltrace",
    "watch",
    "flock",
    "su",
    "runuser",
    "script",
    "ssh",
    "busybox",
    "toybox",
    "docker",
    "podman",
    "kubectl",
    "tmux",
    "screen",
    "fd",
    "fdfind",
    "coproc",
    "function",
    "unbuffer",
    "proot",
    "at",
    "caffeinate",
];
/// Take words from their input, which is only known when they run.
const FILLERS: [&str; 4] = ["xargs", "parallel", "fd", "fdfind"];
const SHELLS: [&str; 12] = ["sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "rbash", "yash", "csh", "tcsh"];
/// Run code that is given by these options, and by their input if no file is named.
const INTERPRETERS: [(&str, &str, &[&str]); 25] = [
    ("python", "c", &[]),
    ("pypy", "c", &[]),
    ("perl", "eEnp", &[]),
    ("ruby", "e", &[]),
    ("node", "ep", &["--eval", "--print"]),
    ("nodejs", "ep", &["--eval", "--print"]),
    ("bun", "ep", &["--eval", "--print"]),
    ("deno", "", &["eval"]),
    ("php", "rRBE", &["--run"]),
    ("lua", "e", &[]),
    ("rscript", "e", &[]),
    ("osascript", "e", &[]),
    ("julia", "eE", &["--eval"]),
    ("elixir", "e", &["--eval"]),
    ("guile", "c", &[]),
    ("racket", "e", &["--eval"]),
    ("scala", "e", &[]),
    ("groovy", "e", &[]),
    ("swift", "e", &[]),
    ("emacs", "", &["--eval", "-eval", "--execute", "--batch", "-batch"]),
    ("vim", "cesS", &["--cmd"]),
    ("nvim", "cesS", &["--cmd"]),
    ("vi", "c", &["--cmd"]),
    ("ex", "", &[""]),
    ("gdb", "", &["-ex", "--eval-command", "-batch"]),
];
/// Run whatever they are given, in a way that is not read here.
const OPAQUE: [&str; 6] = ["powershell", "pwsh", "cmd", "wsl", "expect", "m4"];
/// Words by which programs are told to start others.
const HOOKS: [&str; 16] = [
    "--checkpoint-action",
    "--to-command",
    "--use-compress-prog",
    "--rsh",
    "--upload-pack",
    "--receive-pack",
    "core.pager",
    "core.sshcommand",
    "core.editor",
    "core.fsmonitor",
    "core.hookspath",
    "alias.",
    "proxycommand",
    "dotglob",
    "globignore",
    "globdots",
];

/// Adds `command` to the script, and whatever it starts.
pub(super) fn look(script: &mut Script, mut command: Command, depth: usize) {
    let Some(name) = command.name() else {
        if !command.words.is_empty() {
            script.doubt("which program runs is only known when it does");
        }
        script.commands.push(command);
        return;
    };
    let hook =
        |word: &Glob| as_text(word).is_some_and(|word| HOOKS.iter().any(|hook| word.to_lowercase().contains(hook)));
    if command.words.iter().chain(&command.others).any(hook) {
        script.doubt("it is told to start another program");
    }
    folders(script, &name, &command);
    if SHELLS.contains(&name.as_str()) {
        shell(script, &command, depth);
    } else if OPAQUE.contains(&name.as_str()) && command.words.len() > 1 {
        script.doubt(format!("what {name} is told is not read"));
    } else if let Some((_, letters, options)) = INTERPRETERS.iter().find(|(known, _, _)| is_version_of(&name, known)) {
        interpreter(script, &name, letters, options, &command);
    } else if WRAPPERS.contains(&name.as_str()) {
        command.is_wrapper = true;
        wrapper(script, &name, &command, depth);
    } else {
        language(script, &name, &command, depth);
    }
    script.commands.push(command);
}

/// `python3.12` is `python`.
fn is_version_of(name: &str, known: &str) -> bool {
    name.strip_prefix(known).is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.' || c == '-'))
}

fn text(word: &Glob) -> String {
    as_text(word).unwrap_or_default()
}

fn is_option(word: &Glob) -> bool {
    word.first() == Some(&Atom::Char('-')) && word.len() > 1
}

/// Whether a word is a group of short options with one of these letters, or could be.
fn has_letter(word: &Glob, letters: &str) -> bool {
    let is_long = word.starts_with(&literal("--"));
    is_option(word)
        && !is_long
        && word.iter().any(|atom| match atom {
            Atom::Char(c) => letters.contains(*c),
            Atom::One | Atom::Head | Atom::Run | Atom::Any | Atom::Home => !letters.is_empty(),
        })
}

/// Adds the folders that the command goes to: what it and those after it name is looked up there too.
fn folders(script: &mut Script, name: &str, command: &Command) {
    let mut targets: Vec<Glob> = Vec::new();
    if matches!(name, "cd" | "pushd" | "chdir") {
        let operand = command.words[1..].iter().find(|word| !is_option(word));
        targets.push(operand.cloned().unwrap_or_else(|| vec![Atom::Home]));
    }
    for (i, word) in command.words.iter().enumerate().skip(1) {
        let shown = text(word);
        if matches!(shown.as_str(), "-C" | "-D" | "--directory" | "--chdir" | "--cwd" | "--work-tree") {
            targets.extend(command.words.get(i + 1).cloned());
        } else if shown.starts_with("-C") || shown.starts_with("--directory=") || shown.starts_with("--chdir=") {
            targets.extend(pieces(word).unwrap_or_default().into_iter().skip(1));
        }
    }
    for target in targets {
        let known = (!script.folders.is_empty()).then_some(script.folders.as_slice());
        match path::places(&target, known) {
            Places::Some(places) => {
                for place in places {
                    if !script.folders.contains(&place) {
                        script.folders.push(place);
                    }
                }
            }
            Places::Anything => script.doubt("where it goes is only known when it runs"),
        }
    }
    if script.folders.len() > MAX_FOLDERS {
        script.doubt(format!("it goes to more than {MAX_FOLDERS} folders"));
        script.folders.truncate(MAX_FOLDERS);
    }
}

fn shell(script: &mut Script, command: &Command, depth: usize) {
    let words = &command.words[1..];
    match words.iter().position(|word| has_letter(word, "c") || text(word) == "--command") {
        Some(flag) => words[flag + 1..].iter().filter(|word| !is_option(word)).for_each(|word| {
            script.add_word(word, depth);
        }),
        None => {
            let file = words.iter().find(|word| !is_option(word) && text(word) != "-");
            let reads_input = file.is_none_or(|file| text(file).starts_with("/dev/"));
            if command.fed && (reads_input || words.iter().any(|word| has_letter(word, "s"))) {
                script.doubt("a shell runs what it is sent");
            }
            if file.is_some_and(|file| file.contains(&Atom::Any)) {
                script.doubt("a shell runs what is only known then");
            }
        }
    }
}

fn interpreter(script: &mut Script, name: &str, letters: &str, options: &[&str], command: &Command) {
    let words = &command.words[1..];
    let given = |word: &Glob| has_letter(word, letters) || options.iter().any(|option| text(word).starts_with(option));
    if words.iter().any(given) {
        return script.doubt(format!("code for {name} stands in it"));
    }
    let file = words.iter().find(|word| !is_option(word) && text(word) != "-");
    if command.fed && file.is_none_or(|file| text(file).starts_with("/dev/")) {
        script.doubt(format!("{name} runs what it is sent"));
    }
}

/// Every command that the words after a wrapper can be: its options are not told from what follows them.
fn wrapper(script: &mut Script, name: &str, command: &Command, depth: usize) {
    let fills = FILLERS.contains(&name);
    if command.words.len() > MAX_WRAPPED {
        script.doubt(format!("more than {MAX_WRAPPED} words follow {name}"));
    }
    for (i, word) in command.words.iter().enumerate().take(MAX_WRAPPED).skip(1) {
        let shown = text(word);
        let assigns = shown
            .split('=')
            .next()
            .is_some_and(|name| shown.contains('=') && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
        if shown.contains(|c: char| c.is_whitespace() || ";|&$`(<>".contains(c)) {
            let line = if is_option(word) { shown.chars().skip(2).map(Atom::Char).collect() } else { word.clone() };
            script.add_word(&line, depth);
        } else if as_text(word).is_none() && !fills {
            script.doubt("what is started is only known when it runs");
        }
        if is_option(word)
            || assigns
            || command.words[1..i].iter().any(|before| WRAPPERS.contains(&text(before).as_str()))
        {
            continue;
        }
        let mut words = command.words[i..].to_vec();
        if fills {
            words.push(vec![Atom::Any]);
        }
        let fed = command.fed && !fills;
        script.add(Command { words, others: Vec::new(), fed, is_wrapper: false }, depth + 1);
    }
    if name == "at" && command.fed {
        script.doubt("what it is sent is run later");
    }
}

/// What other programs start or run.
fn language(script: &mut Script, name: &str, command: &Command, depth: usize) {
    let words = &command.words[1..];
    match name {
        "eval" => {
            let line: Vec<Glob> = words.iter().map(|word| [word.as_slice(), &[Atom::Char(' ')]].concat()).collect();
            script.add_word(&line.concat(), depth);
        }
        "alias" | "trap" => {
            for word in words.iter().filter(|word| !is_option(word)) {
                let at = word.iter().position(|atom| *atom == Atom::Char('=')).map_or(0, |at| at + 1);
                script.add_word(&word[at..].to_vec(), depth);
            }
        }
        "find" | "gfind" | "bfs" => find(script, words, depth),
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => {
            let starts = ["system", "getline", "|", ">\"", "> \"", "> $", ">$", "@load"];
            if words.iter().any(|word| as_text(word).is_none_or(|text| starts.iter().any(|start| text.contains(start))))
            {
                script.doubt("an awk program can start others");
            }
        }
        "crontab" | "batch" if command.fed || words.iter().any(|word| text(word) == "-") => {
            script.doubt("what it is sent is run later");
        }
        _ => {}
    }
}

/// The commands of `find -exec`. The files that they are given are only known when they run.
fn find(script: &mut Script, words: &[Glob], depth: usize) {
    let mut rest = words;
    while let Some(at) =
        rest.iter().position(|word| matches!(text(word).as_str(), "-exec" | "-execdir" | "-ok" | "-okdir" | "--exec"))
    {
        rest = &rest[at + 1..];
        let end = rest.iter().position(|word| matches!(text(word).as_str(), ";" | "+")).unwrap_or(rest.len());
        let words =
            rest[..end].iter().map(|word| if text(word).contains("{}") { vec![Atom::Any] } else { word.clone() });
        let words: Vec<_> = words.collect();
        script.add(Command { words, others: Vec::new(), fed: false, is_wrapper: false }, depth + 1);
        rest = &rest[end..];
    }
}
