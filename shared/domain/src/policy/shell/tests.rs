//! What is read out of a command line, word by word.

use super::{Script, braces, pieces, tokens};
use crate::policy::{glob::literal, matcher::shown};

/// The commands of a line, and what else they name behind a `|`.
fn read(text: &str) -> Vec<String> {
    let script = Script::read(text);
    let line = |words: &[crate::policy::glob::Glob]| words.iter().map(|word| shown(word)).collect::<Vec<_>>().join(" ");
    let commands = script.commands.iter().map(|command| match command.others.is_empty() {
        true => line(&command.words),
        false => format!("{} | {}", line(&command.words), line(&command.others)),
    });
    commands.collect()
}

#[test]
fn words_and_operators() {
    for (text, expected) in [
        ("a b", vec!["a b"]),
        ("a;b&&c||d|e&f\ng", vec!["a", "b", "c", "d", "e", "f", "g"]),
        ("a 'b c' \"d e\" f\\ g", vec!["a b c d e f g"]),
        ("a $'b\\x63\\u0064\\145\\'f'", vec!["a bcde'f"]),
        ("a\\\nb", vec!["ab"]),
        ("a # b\nc", vec!["a", "c"]),
        ("a#b", vec!["a#b"]),
        ("a > b 2>&1 < c", vec!["a | b 1 c"]),
        ("a &> b; c >| d", vec!["a | b", "c | d"]),
        ("A=b c", vec!["c | b"]),
        ("a {b,c}d", vec!["a cd bd"]),
        ("a {b}", vec!["a {b}"]),
        ("a {1..3}", vec!["a $(…)"]),
        ("a $(b c) `d`", vec!["b c", "d", "a $(…) $(…)"]),
        ("a \"$(b \"c\")\"", vec!["b c", "a $(…)"]),
        ("a <(b)", vec!["b", "a $(…)"]),
        ("(a; b) && { c; }", vec!["a", "b", "c"]),
        ("if a; then b; else c; fi", vec!["a", "b", "c"]),
        ("f() { a; }", vec!["a"]),
        ("a <<E\nb $(c)\nE\nd", vec!["a", "c", "d"]),
        ("a <<'E'\nb $(c)\nE\nd", vec!["a", "d"]),
        ("a <<-E\n\tb\n\tE\nd", vec!["a", "d"]),
        ("a ${HOME}/x $PWD/y ${b:-c} $? $1", vec!["a ~/x ./y $(…) 0 $(…)"]),
        ("a *.b ?c [d]e", vec!["a *.b ?c ?e"]),
        ("sh -c 'a b'", vec!["a b", "sh -c a b"]),
        ("sudo -u x a b", vec!["x a b", "a b", "b", "sudo -u x a b"]),
        ("find . -exec a {} \\;", vec!["a $(…)", "find . -exec a {} ;"]),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}

#[test]
fn what_cannot_be_read_is_said() {
    for text in
        ["'a", "\"a", "`a", "$(a", "(a", "a)", "case a in b) c;; esac", "${a", "$x", "python -c x", "curl x | sh"]
    {
        assert!(Script::read(text).unclear.is_some(), "{text}");
    }
    for text in ["", " ", "\n", "a", "a 'b'", "echo $?", "python x.py", "sh x.sh", "echo a | cat", "ls -c"] {
        assert_eq!(Script::read(text).unclear, None, "{text}");
    }
}

#[test]
fn words_are_taken_apart() {
    let shown_all = |words: Vec<crate::policy::glob::Glob>| words.iter().map(|word| shown(word)).collect::<Vec<_>>();
    let pieces = shown_all(pieces(&literal("--a=b:c")).unwrap());
    assert!(["--a=b:c", "b:c", "b", "c"].iter().all(|piece| pieces.contains(&(*piece).to_owned())), "{pieces:?}");
    assert!(shown_all(super::pieces(&literal("-fx")).unwrap()).contains(&"x".to_owned()));
    assert!(super::pieces(&literal(&"a,".repeat(300))).is_none());
    assert_eq!(shown_all(braces("a{b,c{d,e}}").unwrap()).len(), 3);
    assert!(braces(&"{a,b}".repeat(7)).is_none());
    let tokens = tokens("don't read `.env`, or x=\"a\"").unwrap();
    assert!([".env", "don't", "read"].iter().all(|word| tokens.contains(*word)), "{tokens:?}");
}
