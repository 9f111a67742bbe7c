//! Tokens of links and completions, and the keys that they are signed with.

use std::sync::LazyLock;

use dormouse_domain::{
    CallKey, Digest, Millis, Principal, RequestId, RequestKey, RunId,
    request::DecisionKind,
    token::{Claims, Completion, KeyRing, Link, TokenId},
};

use crate::words::Bytes;

static RING: LazyLock<KeyRing> = LazyLock::new(|| {
    KeyRing::parse(&KeyRing::text_of_one("now", &[7; 32])).expect("this package's own keys are legal")
});

/// The byte before the rest says what that is: a token as somebody sends it, the choices of which one is made and then
/// forged, or keys as they are kept.
///
/// Nothing panics. What was signed is what is read, and for no other purpose. A text opens only if it is the very token that
/// the keys make of what it says; so one that was changed in any place does not. Keys that are taken sign, and what is said
/// of others does not quote them.
pub fn links(data: &[u8]) {
    let mut bytes = Bytes(data);
    match bytes.byte() % 4 {
        0 => bytes.rest().map_or((), |text| {
            opens_as_signed::<Link>(&RING, text);
            opens_as_signed::<Completion>(&RING, text);
        }),
        1 => {
            let link = link(&mut bytes);
            forge(&link, &mut bytes);
        }
        2 => {
            let completion = completion(&mut bytes);
            forge(&completion, &mut bytes);
        }
        _ => bytes.rest().map_or((), keys),
    }
}

fn opens_as_signed<T: Claims + PartialEq>(ring: &KeyRing, text: &str) {
    if let Some(claims) = ring.open::<T>(text) {
        assert_eq!(ring.sign(&claims).as_deref(), Ok(text), "a token has one text");
    }
}

/// Signs `claims`, and then tries whatever the bytes make of the token.
fn forge<T: Claims + PartialEq + std::fmt::Debug>(claims: &T, bytes: &mut Bytes<'_>) {
    let Ok(token) = RING.sign(claims) else { return };
    assert_eq!(RING.open::<T>(&token).as_ref(), Some(claims), "{token}");
    let other_purpose = RING.open::<Link>(&token).is_some() && RING.open::<Completion>(&token).is_some();
    assert!(!other_purpose, "one token for two purposes: {token}");
    for _ in 0..8 {
        let mut forged = token.clone().into_bytes();
        let at = usize::try_from(bytes.number() >> 32).unwrap_or_default() % forged.len();
        match bytes.byte() % 4 {
            0 => forged[at] ^= bytes.byte(),
            1 => forged.truncate(at),
            2 => forged.insert(at, bytes.byte()),
            _ => drop(forged.remove(at)),
        }
        let Ok(forged) = String::from_utf8(forged) else { continue };
        if forged != token {
            assert_eq!(RING.open::<T>(&forged), None, "{forged} for {token}");
        }
        if bytes.0.is_empty() {
            return;
        }
    }
}

fn link(bytes: &mut Bytes<'_>) -> Link {
    let kinds =
        [DecisionKind::Approve, DecisionKind::Deny, DecisionKind::Answer, DecisionKind::Settle, DecisionKind::Edit];
    let (tenant, subject, of) = (bytes.text(), bytes.text(), bytes.byte());
    Link {
        id: TokenId::from_bits(bytes.number().into()),
        request: RequestId {
            run: RunId::from_bits(bytes.number().into()),
            key: RequestKey::new(bytes.byte().into(), 0),
        },
        digest: Digest::of(&[of]),
        decisions: (0..bytes.byte() % 4).map(|_| bytes.one_of(&kinds)).collect(),
        expires_at: Millis(bytes.number()),
        issuer: Principal { tenant, subject },
    }
}

fn completion(bytes: &mut Bytes<'_>) -> Completion {
    let (tenant, subject) = (bytes.text(), bytes.text());
    Completion {
        id: TokenId::from_bits(bytes.number().into()),
        run: RunId::from_bits(bytes.number().into()),
        call: CallKey::new(bytes.byte().into(), bytes.byte().into()),
        attempt: bytes.byte().into(),
        expires_at: Millis(bytes.number()),
        owner: Principal { tenant, subject },
    }
}

/// Text that is taken for keys.
fn keys(text: &str) {
    /// As long as what is said of bad keys can be without quoting them.
    const MOST_SAID: usize = 200;
    match KeyRing::parse(text) {
        Ok(ring) => {
            let claims = link(&mut Bytes(text.as_bytes()));
            if let Ok(token) = ring.sign(&claims) {
                assert_eq!(ring.open::<Link>(&token), Some(claims), "{token}");
            }
        }
        Err(error) => assert!(error.to_string().len() < MOST_SAID, "{error}"),
    }
}
