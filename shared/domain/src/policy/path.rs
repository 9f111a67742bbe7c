//! Where a path points, however it is spelled.
//!
//! A word can point to several places: what it points to depends on the folder, the user and the
//! system that it is used in. [`places`] gives all of them, and a rule that refuses looks at each.

use super::{
    glob::{self, Atom, Glob, as_text, literal, overlap},
    normal,
};

/// Where a path begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Root {
    /// In the folder where it is used.
    Here,
    /// In somebody's home.
    Home,
    /// At the top of the file system.
    Top,
}

/// A path without `.` and `..`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) root: Root,
    pub(super) parts: Vec<Glob>,
}

/// What a word points to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Places {
    /// To one of these.
    Some(Vec<Place>),
    /// To anything.
    Anything,
}

/// Longest path that is looked at, in atoms.
const MAX_ATOMS: usize = 8_192;

/// A path pattern of a rule.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    /// Where it begins; nowhere: anywhere.
    root: Option<Root>,
    parts: Vec<Part>,
    /// Whether a name that begins with a star meets only what the pattern names without its own stars:
    /// `*.rs` then names no `id_rsa*`, though there could be an `id_rsa.rs`.
    by_name: bool,
}

#[derive(Debug, Clone)]
enum Part {
    /// Any folders, or none.
    Deep,
    Name(Glob),
}

impl Pattern {
    /// The pattern that a rule writes: `.env*` anywhere, `/etc/shadow` there, `~/.ssh` in a home. What is
    /// beneath a match is a match too.
    pub(super) fn new(text: &str) -> Self {
        let text = normal::fold(text.trim()).replace('\\', "/");
        let (root, rest) = match text.strip_prefix("~/") {
            Some(rest) => (Some(Root::Home), rest),
            None if text == "~" => (Some(Root::Home), ""),
            None => (text.starts_with('/').then_some(Root::Top), text.as_str()),
        };
        let names = rest.split('/').filter(|name| !name.is_empty() && *name != ".");
        let mut parts: Vec<_> =
            names.map(|name| if name == "**" { Part::Deep } else { Part::Name(glob::pattern(name)) }).collect();
        while matches!(parts.last(), Some(Part::Deep)) && parts.len() > 1 {
            parts.pop();
        }
        Self { root, parts, by_name: false }
    }

    /// The same, for a list of many patterns that is held against every call: a word that stands for many
    /// files by their endings is not taken to mean one of these.
    pub(super) fn by_name(text: &str) -> Self {
        Self { by_name: true, ..Self::new(text) }
    }

    /// Whether `place` is one of the pattern's, or beneath one. Something in it must be more than `*`, which
    /// alone means "everything here" and names nothing. One pass, whatever the pattern.
    pub(super) fn covers(&self, place: &Place) -> bool {
        if self.root.is_some_and(|root| root != place.root) {
            return false;
        }
        let end = self.parts.len();
        let deep = |at: usize| matches!(self.parts.get(at), Some(Part::Deep));
        let named = self.root.is_some() || self.parts.iter().all(|part| matches!(part, Part::Deep));
        // How far into the pattern one can be, before each part; and whether something was named by then.
        let mut at = vec![[false; 2]; end + 1];
        at[0][usize::from(named)] = true;
        for part in place.parts.iter().map(Some).chain([None]) {
            for i in 0..end {
                if deep(i) {
                    at[i + 1] = [at[i + 1][0] | at[i][0], at[i + 1][1] | at[i][1]];
                }
            }
            let Some(part) = part.filter(|_| !at[end][1]) else { break };
            let mut next = vec![[false; 2]; end + 1];
            for (i, own) in self.parts.iter().enumerate().filter(|(i, _)| at[*i] != [false; 2]) {
                match own {
                    Part::Deep => next[i] = [next[i][0] | at[i][0], next[i][1] | at[i][1]],
                    Part::Name(name) if self.meets(part, name) => {
                        let names = !is_sweep(part) || is_sweep(name);
                        next[i + 1][1] |= at[i][1] || names;
                        next[i + 1][0] |= at[i][0] && !names;
                    }
                    Part::Name(_) => {}
                }
            }
            // A pattern that says nowhere where it begins can begin at every part.
            next[0][usize::from(named)] |= self.root.is_none();
            at = next;
        }
        at[end][1]
    }

    /// Whether one of the pattern's can be beneath `place`. Only where the pattern says where it begins:
    /// else it could be anywhere.
    pub(super) fn is_beneath(&self, place: &Place) -> bool {
        let Some(root) = self.root else { return false };
        let above = |parts: &[Glob]| {
            let mut own = self.parts.iter();
            parts.iter().all(|part| match own.next() {
                Some(Part::Name(name)) => is_sweep(part) || self.meets(part, name),
                Some(Part::Deep) => true,
                None => false,
            })
        };
        if place.root == root {
            return place.parts.len() < self.parts.len() && above(&place.parts);
        }
        // A folder that homes are in.
        root == Root::Home
            && place.root == Root::Top
            && HOMES.iter().any(|home| {
                place.parts.len() <= home.len()
                    && place.parts.iter().zip(*home).all(|(part, name)| overlap(part, &glob::pattern(name)))
            })
    }

    /// Whether a name of a path can be one of the pattern's. A `*` at its start finds no hidden files, but
    /// some tools and some settings of shells let it: then what the pattern names without its own stars
    /// counts.
    fn meets(&self, part: &[Atom], name: &[Atom]) -> bool {
        let starts_with_star = matches!(part.first(), Some(Atom::Head | Atom::Run));
        if !(starts_with_star && self.by_name) && overlap(part, name) {
            return true;
        }
        starts_with_star && {
            let named: Glob = name.iter().copied().filter(|atom| !matches!(atom, Atom::Run | Atom::Any)).collect();
            let bare = part.iter().position(|atom| *atom != Atom::Head).unwrap_or(0);
            overlap(&part[bare..], &named)
        }
    }
}

/// Whether a name is nothing but stars.
fn is_sweep(name: &[Atom]) -> bool {
    !name.is_empty() && name.iter().all(|atom| matches!(atom, Atom::Head | Atom::Run))
}

/// Where homes are.
const HOMES: [&[&str]; 9] = [
    &["home", "*"],
    &["users", "*"],
    &["root"],
    &["var", "root"],
    &["export", "home", "*"],
    &["usr", "home", "*"],
    &["mnt", "c", "users", "*"],
    &["c", "users", "*"],
    &["var", "home", "*"],
];

/// Where `word` points, used in `folder` if that is known.
pub(super) fn places(word: &[Atom], folder: Option<&[Place]>) -> Places {
    if word.contains(&Atom::Any) || word.len() > MAX_ATOMS {
        return Places::Anything;
    }
    let (spellings, complete) = normal::word_spellings(word);
    if !complete {
        return Places::Anything;
    }
    let mut found: Vec<Place> = Vec::new();
    let mut add = |place: Place| {
        if !found.contains(&place) {
            found.push(place);
        }
    };
    for spelling in spellings {
        let place = read(&spelling);
        if let (Root::Here, Some(folders)) = (place.root, folder) {
            for folder in folders {
                elsewhere(resolve(folder.root, folder.parts.iter().cloned().chain(place.parts.clone())), &mut add);
            }
        }
        let streams = without_streams(&place);
        elsewhere(resolve(place.root, place.parts.into_iter()), &mut add);
        if let Some(place) = streams {
            elsewhere(resolve(place.root, place.parts.into_iter()), &mut add);
        }
    }
    Places::Some(found)
}

/// A path that is given as text, with the wildcards that tools take in paths.
pub(super) fn text_places(text: &str) -> Places {
    let (spellings, complete) = normal::spellings(text);
    if !complete || text.len() > MAX_ATOMS {
        return Places::Anything;
    }
    let mut found = Vec::new();
    for spelling in spellings {
        let cut = text.contains('\0').then(|| normal::fold(text.split('\0').next().unwrap_or_default()));
        let escaped = spelling.contains('\\').then(|| spelling.replace('\\', ""));
        for text in [Some(spelling), cut, escaped].into_iter().flatten() {
            let Some(words) = super::shell::braces(&text) else { return Places::Anything };
            for word in words {
                match places(&word, None) {
                    Places::Some(places) => found.extend(places),
                    Places::Anything => return Places::Anything,
                }
            }
        }
    }
    Places::Some(found)
}

/// Where a word begins, and its parts as they stand.
fn read(word: &[Atom]) -> Place {
    let slashed: Glob =
        word.iter().map(|atom| if *atom == Atom::Char('\\') { Atom::Char('/') } else { *atom }).collect();
    let trimmed = trim(&slashed);
    let (word, is_url) = match file_url(trimmed) {
        Some(rest) => (rest, true),
        None => (trimmed, false),
    };
    let mut root = if is_url || word.first() == Some(&Atom::Char('/')) { Root::Top } else { Root::Here };
    let mut parts: Vec<Glob> = Vec::new();
    for (i, part) in word.split(|atom| *atom == Atom::Char('/')).enumerate() {
        let part = clean(part);
        if part.is_empty() {
            continue;
        }
        let first = i == 0 || parts.is_empty() && root == Root::Here;
        match start(&part, first) {
            Some((at, rest)) => {
                root = at;
                parts.clear();
                parts.extend(Some(rest).filter(|rest| !rest.is_empty()));
            }
            None => parts.push(part),
        }
    }
    Place { root, parts }
}

fn trim(word: &[Atom]) -> &[Atom] {
    let is_space = |atom: &Atom| matches!(atom, Atom::Char(c) if c.is_whitespace() || matches!(c, '"' | '\'' | '`'));
    let start = word.iter().take_while(|atom| is_space(atom)).count();
    let end = word[start..].iter().rev().take_while(|atom| is_space(atom)).count();
    &word[start..word.len() - end]
}

/// What stands behind `file:`, its slashes and its host.
fn file_url(word: &[Atom]) -> Option<&[Atom]> {
    let rest = word.strip_prefix(literal("file:").as_slice())?;
    let Some(rest) = rest.strip_prefix(literal("//").as_slice()) else { return Some(rest) };
    let host = rest.iter().position(|atom| *atom == Atom::Char('/')).unwrap_or(rest.len());
    Some(&rest[host..])
}

/// A part as file systems read it that drop dots and spaces at the end of a name.
fn clean(part: &[Atom]) -> Glob {
    let dots = part.iter().all(|atom| *atom == Atom::Char('.'));
    let mut part = part.to_vec();
    while !dots && matches!(part.last(), Some(Atom::Char(c)) if *c == '.' || c.is_whitespace()) {
        part.pop();
    }
    part
}

/// Whether a path begins anew with this part, and where: at a home, or on a drive.
fn start(part: &[Atom], first: bool) -> Option<(Root, Glob)> {
    if let Some(at) = part.iter().position(|atom| *atom == Atom::Home) {
        return Some((Root::Home, part[at + 1..].to_vec()));
    }
    if first && part.first() == Some(&Atom::Char('~')) {
        return Some((Root::Home, Glob::new()));
    }
    if let [Atom::Char(drive), Atom::Char(':'), rest @ ..] = part
        && drive.is_ascii_alphabetic()
    {
        return Some((Root::Top, rest.to_vec()));
    }
    let text = as_text(part)?;
    let homes = [
        "$home",
        "${home}",
        "%userprofile%",
        "%homepath%",
        "%homedrive%%homepath%",
        "$env:userprofile",
        "$env:home",
        "%home%",
        "~",
    ];
    homes.contains(&text.as_str()).then(|| (Root::Home, Glob::new()))
}

/// The path without names of data streams (`x::$data`), if it has some.
fn without_streams(place: &Place) -> Option<Place> {
    let colon = |part: &Glob| part.iter().position(|atom| *atom == Atom::Char(':')).filter(|at| *at > 0);
    place.parts.iter().any(|part| colon(part).is_some()).then(|| {
        let cut = |part: &Glob| clean(&part[..colon(part).unwrap_or(part.len())]);
        Place { root: place.root, parts: place.parts.iter().map(cut).collect() }
    })
}

/// The path without `.` and `..`. One that leads out of where it begins keeps its leading `..`.
fn resolve(root: Root, parts: impl Iterator<Item = Glob>) -> Place {
    let (dot, dots) = (literal("."), literal(".."));
    let mut resolved: Vec<Glob> = Vec::new();
    for part in parts {
        if part == dots {
            match resolved.last() {
                Some(last) if *last != dots => {
                    resolved.pop();
                }
                Some(_) | None if root == Root::Top => {}
                Some(_) | None => resolved.push(part),
            }
        } else if part != dot {
            resolved.push(part);
        }
    }
    Place { root, parts: resolved }
}

/// Adds the place, and those that it also is: by way of `/proc`, as a home, or above where it begins.
fn elsewhere(place: Place, add: &mut impl FnMut(Place)) {
    let name = |i: usize| place.parts.get(i).and_then(|part| as_text(part));
    match place.root {
        Root::Top => {
            if name(0).as_deref() == Some("proc") && place.parts.len() >= 3 {
                let task = if name(2).as_deref() == Some("task") { 4 } else { 2 };
                let rest = |from: usize| place.parts.get(from + 1..).unwrap_or_default().to_vec().into_iter();
                match name(task).as_deref() {
                    Some("root") => elsewhere(resolve(Root::Top, rest(task)), add),
                    Some("cwd") => elsewhere(resolve(Root::Here, rest(task)), add),
                    Some(_) | None => {}
                }
            }
            for home in HOMES {
                let is_home = place.parts.len() >= home.len()
                    && place.parts.iter().zip(home).all(|(part, name)| overlap(part, &glob::pattern(name)));
                if is_home {
                    add(Place { root: Root::Home, parts: place.parts[home.len()..].to_vec() });
                }
            }
        }
        Root::Here | Root::Home => {
            let dots = literal("..");
            let up = place.parts.iter().take_while(|part| **part == dots).count();
            if up > 0 {
                let beneath = place.parts[up..].to_vec();
                elsewhere(Place { root: Root::Top, parts: beneath.clone() }, add);
                add(Place { root: Root::Home, parts: beneath });
            }
        }
    }
    add(place);
}
