//! Stored bodies: JSON text, as it is below 1 KiB and compressed from there, and in parts where
//! one item cannot hold it (case 41). The attribute's type says which of both forms it is.

use std::io::Read as _;

use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
use dormouse_domain::entry::FORMAT;
use dormouse_engine::ports::{StoreError, WriteError};

use crate::{
    attrs::{Item, corrupt, key, n, number, optional_number, s, text},
    keys::{PK, SK, part_sk},
};

/// Longest JSON text of a body, in bytes.
pub(crate) const MAX_BODY: usize = 3 * 1024 * 1024;

/// From this size on, a body is compressed.
const COMPRESSED_FROM: usize = 1024;

/// Most bytes of a compressed body in one item, of the 400 KB that an item may have.
const CHUNK: usize = 350 * 1024;

/// Most bytes to which a stored body expands: well over [`MAX_BODY`], so that a later release can
/// raise that, and little enough for the memory of a function.
const MAX_EXPANDED: u64 = 16 * 1024 * 1024;

const BODY: &str = "body";
const VERSION: &str = "v";
const PARTS: &str = "parts";

/// `text` as one attribute, and the chunks that did not fit into it.
fn encode(what: &str, text: String) -> Result<(AttributeValue, Vec<AttributeValue>), WriteError> {
    if text.len() > MAX_BODY {
        return Err(WriteError::TooLarge(format!("{what} has {} bytes, at most {MAX_BODY} can be stored", text.len())));
    }
    if text.len() < COMPRESSED_FROM {
        return Ok((s(text), vec![]));
    }
    let packed = zstd::bulk::compress(text.as_bytes(), zstd::DEFAULT_COMPRESSION_LEVEL)
        .map_err(|error| WriteError::Unavailable(format!("{what} cannot be compressed: {error}")))?;
    let mut chunks = packed.chunks(CHUNK).map(|chunk| AttributeValue::B(Blob::new(chunk)));
    let head = chunks.next().unwrap_or_else(|| s(""));
    Ok((head, chunks.collect()))
}

/// `text` as one attribute; what does not fit is too large.
pub(crate) fn single(what: &str, text: String) -> Result<AttributeValue, WriteError> {
    let size = text.len();
    let (head, rest) = encode(what, text)?;
    if rest.is_empty() { Ok(head) } else { Err(WriteError::TooLarge(format!("{what} has {size} bytes"))) }
}

/// Adds the format version and a body that must fit into the item.
pub(crate) fn put(item: &mut Item, what: &str, text: String) -> Result<(), WriteError> {
    let body = single(what, text)?;
    item.insert(VERSION.to_owned(), n(FORMAT));
    item.insert(BODY.to_owned(), body);
    Ok(())
}

/// Adds the format version and the beginning of the body to `head`; returns it and the items for
/// the rest of the body.
pub(crate) fn split(mut head: Item, what: &str, text: String) -> Result<Vec<Item>, WriteError> {
    let (body, rest) = encode(what, text)?;
    head.insert(VERSION.to_owned(), n(FORMAT));
    head.insert(BODY.to_owned(), body);
    let name = |attribute| head.get(attribute).and_then(|value| value.as_s().ok()).cloned().unwrap_or_default();
    let (pk, sk) = (name(PK), name(SK));
    if !rest.is_empty() {
        head.insert(PARTS.to_owned(), n(rest.len()));
    }
    let mut items = vec![head];
    for (place, chunk) in rest.into_iter().enumerate() {
        let mut part = key(pk.as_str(), part_sk(&sk, place + 1));
        part.insert(BODY.to_owned(), chunk);
        items.push(part);
    }
    Ok(items)
}

/// The text of an attribute made by [`single`].
pub(crate) fn decode(item: &Item, name: &str) -> Result<String, StoreError> {
    let value = item.get(name).ok_or_else(|| corrupt(item, format_args!("{name} is missing")))?;
    if let Ok(plain) = value.as_s() {
        return Ok(plain.clone());
    }
    let packed = value.as_b().map_err(|_| corrupt(item, format_args!("{name} is neither text nor bytes")))?;
    expand(packed.as_ref()).map_err(|error| corrupt(item, format_args!("{name}: {error}")))
}

fn expand(packed: &[u8]) -> std::io::Result<String> {
    let mut text = String::new();
    zstd::stream::read::Decoder::with_buffer(packed)?.take(MAX_EXPANDED + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_EXPANDED {
        return Err(std::io::Error::other("expands beyond every limit"));
    }
    Ok(text)
}

fn check_version(item: &Item) -> Result<(), StoreError> {
    let version: u32 = number(item, VERSION)?;
    if (1..=FORMAT).contains(&version) {
        return Ok(());
    }
    Err(corrupt(item, format_args!("format version {version}; this release reads up to {FORMAT}")))
}

/// The body of an item made by [`put`].
pub(crate) fn get(item: &Item) -> Result<String, StoreError> {
    check_version(item)?;
    decode(item, BODY)
}

/// A head with the parts that were seen of it.
#[derive(Debug)]
pub(crate) struct Whole {
    /// The item that was put as the first.
    pub(crate) head: Item,
    parts: Vec<Item>,
}

impl Whole {
    /// The body.
    pub(crate) fn body(&self) -> Result<String, StoreError> {
        if self.parts.is_empty() {
            return get(&self.head);
        }
        check_version(&self.head)?;
        let mut packed = Vec::with_capacity(CHUNK * (self.parts.len() + 1));
        for item in std::iter::once(&self.head).chain(&self.parts) {
            let chunk = item.get(BODY).and_then(|value| value.as_b().ok());
            packed.extend_from_slice(chunk.ok_or_else(|| corrupt(item, "the body's part is missing"))?.as_ref());
        }
        expand(&packed).map_err(|error| corrupt(&self.head, error))
    }
}

/// What a query saw of heads and parts.
pub(crate) enum Seen {
    /// All that belongs together.
    All(Vec<Whole>),
    /// Something is not there (yet): a query is only read-committed against transactions.
    Missing(String),
}

/// Puts heads and their parts together; `items` are sorted by key.
pub(crate) fn gather(items: Vec<Item>) -> Result<Seen, StoreError> {
    let mut wholes: Vec<Whole> = Vec::new();
    for item in items {
        match wholes.last_mut() {
            Some(last) if text(&item, SK)? == part_sk(text(&last.head, SK)?, last.parts.len() + 1) => {
                last.parts.push(item);
            }
            Some(_) | None => wholes.push(Whole { head: item, parts: vec![] }),
        }
    }
    for whole in &wholes {
        let parts: usize = optional_number(&whole.head, PARTS)?.unwrap_or(0);
        if parts != whole.parts.len() {
            return Ok(Seen::Missing(format!("{} of {parts} parts of {}", whole.parts.len(), text(&whole.head, SK)?)));
        }
        // A part whose head is not seen yet stands in a head's place; it has no version.
        if !whole.head.contains_key(VERSION)
            && text(&whole.head, SK)?.rsplit_once('#').is_some_and(|(_, n)| n.len() == 2)
        {
            return Ok(Seen::Missing(format!("the head of {}", text(&whole.head, SK)?)));
        }
    }
    Ok(Seen::All(wholes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text that does not compress well: hexadecimal digits of a linear congruential generator.
    fn noise(bytes: usize) -> String {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+/"[(state >> 58) as usize])
        };
        (0..bytes).map(|_| next()).collect()
    }

    fn round_trip(text: &str) -> (usize, String) {
        let items = split(key("P", "J#0000000000"), "x", text.to_owned()).unwrap();
        let count = items.len();
        let Seen::All(wholes) = gather(items).unwrap() else { panic!("parts are missing") };
        assert_eq!(wholes.len(), 1);
        (count, wholes[0].body().unwrap())
    }

    #[test]
    fn bodies_survive_at_every_size() {
        for (bytes, items) in [(0, 1), (1, 1), (1023, 1), (1024, 1), (400_000, 1), (700_000, 2), (MAX_BODY, 7)] {
            let text = noise(bytes);
            let (count, back) = round_trip(&text);
            assert!(back == text, "{bytes}");
            assert_eq!(count, items, "{bytes}");
        }
    }

    #[test]
    fn a_body_is_compressed_from_one_kibibyte() {
        assert!(single("x", "a".repeat(1023)).unwrap().is_s());
        assert!(single("x", "a".repeat(1024)).unwrap().is_b());
    }

    #[test]
    fn a_body_over_the_limit_is_too_large_even_if_it_compresses() {
        assert!(matches!(encode("x", "a".repeat(MAX_BODY + 1)), Err(WriteError::TooLarge(_))));
        assert!(matches!(single("x", noise(700_000)), Err(WriteError::TooLarge(_))));
    }

    #[test]
    fn a_body_that_expands_beyond_the_limit_is_corrupt() {
        let mut item = key("P", "S");
        let bomb = zstd::bulk::compress(&vec![b'a'; 17 * 1024 * 1024], 3).unwrap();
        assert!(bomb.len() < 10_000);
        item.insert(BODY.to_owned(), AttributeValue::B(Blob::new(bomb)));
        assert!(matches!(decode(&item, BODY), Err(StoreError::Corrupt(_))));
    }

    #[test]
    fn bytes_that_are_no_frame_are_corrupt() {
        let mut item = key("P", "S");
        item.insert(BODY.to_owned(), AttributeValue::B(Blob::new(*b"not zstd")));
        assert!(matches!(decode(&item, BODY), Err(StoreError::Corrupt(_))));
    }

    /// A18: what is stored says in which format it is, and one that is not known is not guessed at.
    #[test]
    fn a18_a_newer_format_is_corrupt() {
        let mut items = split(key("P", "J#0000000000"), "x", "{}".to_owned()).unwrap();
        items[0].insert(VERSION.to_owned(), n(FORMAT + 1));
        let Seen::All(wholes) = gather(items).unwrap() else { panic!("parts are missing") };
        assert!(matches!(wholes[0].body(), Err(StoreError::Corrupt(_))));
    }

    #[test]
    fn any_missing_piece_is_noticed() {
        let items = split(key("P", "J#0000000000"), "x", noise(1_500_000)).unwrap();
        assert_eq!(items.len(), 4);
        for left_out in 0..items.len() {
            let mut some = items.clone();
            some.remove(left_out);
            assert!(matches!(gather(some).unwrap(), Seen::Missing(_)), "{left_out}");
        }
    }
}
