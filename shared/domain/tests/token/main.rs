//! Tokens: what a forger, a mix-up or a careless client can make of one is refused, and what was signed is what is read.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by stopping")]

mod deciding;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use dormouse_domain::{
    Digest, Millis, Principal, RequestId, RequestKey, RunId,
    request::DecisionKind,
    token::{Claims, KeyRing, Link, MAX_TOKEN_BYTES, Purpose, TokenId, TooLong},
};
use hmac::{Hmac, KeyInit as _, Mac as _};
use proptest::prelude::*;

const SECRET: [u8; 32] = [7; 32];

pub(crate) fn ring(id: &str, secret: u8) -> KeyRing {
    KeyRing::parse(&KeyRing::text_of_one(id, &[secret; 32])).unwrap()
}

/// Several keys at once, the first of which signs.
fn rings(keys: &[(&str, u8)]) -> KeyRing {
    let each = keys.iter().map(|(id, secret)| {
        let one: serde_json::Value = serde_json::from_str(&KeyRing::text_of_one(id, &[*secret; 32])).unwrap();
        one["keys"][0].clone()
    });
    KeyRing::parse(&serde_json::json!({ "keys": each.collect::<Vec<_>>() }).to_string()).unwrap()
}

pub(crate) fn link() -> Link {
    Link {
        id: TokenId::from_bits(1),
        request: RequestId { run: RunId::from_bits(1), key: RequestKey::new(5, 0) },
        digest: Digest::of(b"arguments"),
        decisions: vec![DecisionKind::Approve, DecisionKind::Deny],
        expires_at: Millis(100),
        issuer: Principal { tenant: "acme".into(), subject: "ann".into() },
    }
}

/// A token of these parts, signed with the right key: what only a thief of the key, or a later release, could make.
fn signed(mark: &str, key: &str, claims: &[u8]) -> String {
    let signed = format!("{mark}.{key}.{}", BASE64_URL_SAFE_NO_PAD.encode(claims));
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&SECRET).unwrap();
    mac.update(signed.as_bytes());
    format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

fn some_link() -> impl Strategy<Value = Link> {
    let kinds = vec![DecisionKind::Approve, DecisionKind::Deny, DecisionKind::Answer, DecisionKind::Settle];
    let text = "[a-z\"\\\\,\\[\\]. |/\u{e4}\u{202e}]{0,12}";
    let names = (any::<u128>(), any::<u128>(), any::<u32>(), any::<u32>());
    let rest = (any::<u64>(), prop::collection::vec(prop::sample::select(kinds), 0..4), text, text, any::<[u8; 4]>());
    (names, rest).prop_map(|((id, run, entry, ordinal), (at, decisions, tenant, subject, of))| Link {
        id: TokenId::from_bits(id),
        request: RequestId { run: RunId::from_bits(run), key: RequestKey::new(entry, ordinal) },
        digest: Digest::of(&of),
        decisions,
        expires_at: Millis(at),
        issuer: Principal { tenant, subject },
    })
}

proptest! {
    /// What was signed is what is read, whatever is in it; so no two links have one token (case 7).
    #[test]
    fn x6_case_7_what_is_signed_is_what_is_read(one in some_link(), other in some_link()) {
        let ring = ring("a", 7);
        let token = ring.sign(&one).unwrap();
        prop_assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)), "{}", token);
        prop_assert_eq!(ring.open::<Link>(&token), Some(one.clone()));
        prop_assert_eq!(token == ring.sign(&other).unwrap(), one == other);
    }

    /// One character other than it was, anywhere: refused. The last one too, whose spare bits lenient decoders drop.
    #[test]
    fn x6_another_character_anywhere_is_refused(link in some_link(), place in any::<prop::sample::Index>(), to in "[A-Za-z0-9_.=~ -]") {
        let ring = ring("a", 7);
        let token = ring.sign(&link).unwrap();
        for place in [place.index(token.len()), token.len() - 1] {
            let mut forged = token.clone();
            forged.replace_range(place..=place, &to);
            if forged != token {
                prop_assert_eq!(ring.open::<Link>(&forged), None, "{}", forged);
            }
        }
    }

    /// A part of another token in the place of this one's: refused.
    #[test]
    fn x6_case_7_parts_of_two_tokens_make_none(one in some_link(), other in some_link()) {
        prop_assume!(one != other);
        let ring = rings(&[("a", 7), ("b", 8)]);
        let tokens = [ring.sign(&one).unwrap(), rings(&[("b", 8)]).sign(&other).unwrap()];
        let parts = tokens.each_ref().map(|token| token.split('.').collect::<Vec<_>>());
        for chosen in 1..15 {
            let mixed: Vec<_> = (0..4).map(|part| parts[chosen >> part & 1][part]).collect();
            // Both are for the same purpose: that part is one and the same.
            let mixed = mixed.join(".");
            if !tokens.contains(&mixed) {
                prop_assert_eq!(ring.open::<Link>(&mixed), None, "{}", mixed);
            }
        }
    }
}

/// Each bit of a token, turned over.
#[test]
fn x6_every_flipped_bit_is_refused() {
    let ring = ring("a", 7);
    let token = ring.sign(&link()).unwrap();
    for bit in 0..token.len() * 8 {
        let mut bytes = token.clone().into_bytes();
        bytes[bit / 8] ^= 1 << (bit % 8);
        if let Ok(forged) = String::from_utf8(bytes) {
            assert_eq!(ring.open::<Link>(&forged), None, "{forged}");
        }
    }
    for length in 0..token.len() {
        assert_eq!(ring.open::<Link>(&token[..length]), None, "{length}");
    }
}

/// What else is not a link, one of each kind.
#[test]
fn x6_forgeries_are_refused() {
    let ring = ring("a", 7);
    let token = ring.sign(&link()).unwrap();
    let claims = serde_json::to_vec(&link()).unwrap();
    assert_eq!(signed("link1", "a", &claims), token, "the signature here is that of the code");
    let (body, signature) = token.rsplit_once('.').unwrap();
    let short = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
    for (what, forged) in [
        ("nothing", String::new()),
        ("dots", "...".to_owned()),
        ("no signature", body.to_owned()),
        ("an empty signature", format!("{body}.")),
        ("half a signature", format!("{body}.{}", BASE64_URL_SAFE_NO_PAD.encode(&short[..16]))),
        ("the signature twice", format!("{token}.{signature}")),
        ("padding", format!("{token}=")),
        ("a line break", format!("{token}\n")),
        ("a space", format!(" {token}")),
        (
            "another alphabet",
            token.replace('-', "+").replace('_', "/") + if token.contains(['-', '_']) { "" } else { "+" },
        ),
        ("an unknown key", signed("link1", "b", &claims)),
        ("a key's name in another case", signed("link1", "A", &claims)),
        ("a later version", signed("link2", "a", &claims)),
        ("no version", signed("link", "a", &claims)),
        ("another purpose", signed("done1", "a", &claims)),
        ("no claims", signed("link1", "a", b"")),
        ("other claims", signed("link1", "a", b"{}")),
        ("one claim too many", signed("link1", "a", &[&claims[..claims.len() - 1], b",1]".as_slice()].concat())),
        ("more after the claims", signed("link1", "a", &[claims.as_slice(), b"[]"].concat())),
        ("too long", signed("link1", "a", &[b" ".repeat(MAX_TOKEN_BYTES).as_slice(), &claims].concat())),
    ] {
        assert_eq!(ring.open::<Link>(&forged), None, "{what}");
    }
}

/// The same claims for another purpose: the keys are the same, and the token is none.
#[test]
fn x6_a_token_is_good_for_its_purpose_only() {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Other(Link);
    impl Claims for Other {
        const PURPOSE: Purpose = Purpose::Completion;
    }
    let ring = ring("a", 7);
    let (one, other) = (ring.sign(&link()).unwrap(), ring.sign(&Other(link())).unwrap());
    assert_eq!((ring.open::<Link>(&one), ring.open::<Other>(&one)), (Some(link()), None));
    assert_eq!((ring.open::<Link>(&other), ring.open::<Other>(&other)), (None, Some(Other(link()))));
}

/// The first key signs, all verify; a key that is gone takes its tokens with it.
#[test]
fn x6_keys_change_without_a_gap() {
    let (old, new) = (("old", 1), ("new", 2));
    let before = rings(&[old]).sign(&link()).unwrap();
    let both = rings(&[new, old]);
    assert_eq!(both.open::<Link>(&before), Some(link()));
    let after = both.sign(&link()).unwrap();
    assert!(after.starts_with("link1.new."), "{after}");
    assert_eq!(rings(&[old, new]).open::<Link>(&after), Some(link()));
    assert_eq!(rings(&[new]).open::<Link>(&before), None);
    // A key of that name with another secret is another key.
    assert_eq!(rings(&[new, ("old", 3)]).open::<Link>(&before), None);
}

/// What a token can hold is bounded, and names as long as the API lets in do fit.
#[test]
fn x6_a_token_is_of_bounded_length() {
    let ring = ring(&"k".repeat(32), 7);
    let named = |bytes: usize| Link {
        request: RequestId { run: RunId::from_bits(1), key: RequestKey::new(u32::MAX, u32::MAX) },
        decisions: vec![DecisionKind::Approve, DecisionKind::Deny, DecisionKind::Answer, DecisionKind::Settle],
        expires_at: Millis(u64::MAX),
        issuer: Principal { tenant: "\"".repeat(bytes), subject: "\\".repeat(bytes) },
        ..link()
    };
    let longest = ring.sign(&named(256)).unwrap();
    assert_eq!(ring.open::<Link>(&longest), Some(named(256)));
    assert_eq!(ring.sign(&named(2_000)), Err(TooLong));
}
