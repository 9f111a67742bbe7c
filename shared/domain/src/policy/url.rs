//! The hosts that a text names, however they are spelled.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::normal;

/// Whether this is a URL of somewhere else than the file system.
pub(super) fn is_remote(text: &str) -> bool {
    let text = normal::fold(text);
    let text = text.trim();
    text.split_once("://").is_some_and(|(scheme, _)| {
        scheme != "file" && !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    })
}

/// Every host that `text` can be read as naming: of the URL that it is, and of those within it.
pub(super) fn hosts(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for spelling in normal::spellings(text).0 {
        let spelling = spelling.replace('\\', "/");
        let spelling = spelling.trim();
        let mut starts: Vec<_> = spelling.match_indices("//").map(|(at, _)| at + 2).collect();
        starts.push(0);
        for start in starts {
            let rest = &spelling[start..];
            let rest = rest.trim_start_matches('/');
            let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
            let parts = [authority, authority.rsplit('@').next().unwrap_or_default()];
            found.extend(parts.into_iter().map(without_port).filter(|host| !host.is_empty()).flat_map(names));
        }
    }
    found.sort();
    found.dedup();
    found
}

fn without_port(authority: &str) -> &str {
    if let Some(inner) = authority.strip_prefix('[') {
        return inner.split(']').next().unwrap_or_default();
    }
    match authority.matches(':').count() {
        1 => authority.split(':').next().unwrap_or_default(),
        _ => authority,
    }
}

/// A host, and the address that it is in another spelling.
fn names(host: &str) -> Vec<String> {
    let host = host.trim_end_matches('.').split('%').next().unwrap_or_default();
    let mut names = vec![host.to_owned()];
    names.extend(numeric(host).map(|address| address.to_string()));
    if let Ok(address) = host.parse::<Ipv6Addr>() {
        names.push(address.to_string());
        names.extend(address.to_ipv4().map(|address| address.to_string()));
    }
    names
}

/// An IPv4 address in any of the forms that resolvers take: `0xa9.254.43518`, `2852039166`, octal parts.
fn numeric(host: &str) -> Option<Ipv4Addr> {
    let parts: Option<Vec<u32>> = host.split('.').map(number).collect();
    let parts = parts.filter(|parts| (1..=4).contains(&parts.len()))?;
    let (last, first) = parts.split_last()?;
    let mut address = u64::from(*last);
    for (i, part) in first.iter().enumerate() {
        if *part > 255 {
            return None;
        }
        address |= u64::from(*part) << (24 - 8 * i);
    }
    u32::try_from(address).ok().map(Ipv4Addr::from)
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u32::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_many_spellings() {
        for text in [
            "http://169.254.169.254/latest/meta-data",
            "169.254.169.254",
            "http://169.254.169.254:80/",
            "http://user@169.254.169.254/",
            "http://2852039166/",
            "http://0xA9FEA9FE/",
            "http://0251.0376.0251.0376/",
            "http://169.254.43518/",
            "http://[::ffff:169.254.169.254]/",
            "http://[::ffff:a9fe:a9fe]/",
            "http://%31%36%39.254.169.254/",
            "http://\u{ff11}\u{ff16}\u{ff19}.254.169.254/",
            "http://169\u{3002}254\u{3002}169\u{3002}254/",
            "http://169.254.169.254./",
            "https://example.com/?next=http://169.254.169.254/",
            "http:\\\\169.254.169.254\\x",
            "HTTP://169.254.169.254",
        ] {
            assert!(hosts(text).iter().any(|host| host == "169.254.169.254"), "{text}: {:?}", hosts(text));
        }
        assert!(!hosts("http://example.com/169.254.169.254").contains(&"169.254.169.254".to_owned()));
    }
}
