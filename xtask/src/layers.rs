//! Which package may use which: `functions → api, aws, models, tools → engine → domain`.

use std::{collections::BTreeMap, path::Path, process::Command};

use anyhow::{Context, Result};
use serde_json::Value;

/// What each package of the library side may use of the workspace. Packages that are not named here
/// are at the top (functions, the local stack, tests) and may use anything below.
const ALLOWED: [(&str, &[&str]); 7] = [
    ("dormouse-domain", &[]),
    ("dormouse-engine", &["dormouse-domain"]),
    ("dormouse-aws", &["dormouse-domain", "dormouse-engine"]),
    ("dormouse-models", &["dormouse-domain", "dormouse-engine"]),
    ("dormouse-tools", &["dormouse-domain", "dormouse-engine"]),
    ("dormouse-api", &["dormouse-domain", "dormouse-engine"]),
    ("dormouse-testkit", &["dormouse-domain", "dormouse-engine"]),
];

/// Packages from outside that only these may use directly.
const WRAPPED: [(&str, &[&str]); 4] = [
    ("aws-sdk-dynamodb", &["dormouse-aws", "dormouse-localstack", "dormouse-simulation"]),
    ("aws-sdk-secretsmanager", &["dormouse-aws"]),
    ("aws-sdk-sqs", &["dormouse-aws", "dormouse-localstack", "dormouse-simulation"]),
    ("dynoxide-rs", &["dormouse-localstack", "dormouse-simulation", "dormouse-aws (dev)"]),
];

/// What the domain may use at all: nothing that has a clock, randomness or IO.
const DOMAIN: [&str; 12] = [
    "base64",
    "hmac",
    "serde",
    "serde_json",
    "serde_json_canonicalizer",
    "sha2",
    "similar",
    "thiserror",
    "toml",
    "unicode-general-category",
    "unicode-normalization",
    "unicode-security",
];

/// The rules that a dependency of the workspace breaks.
pub(crate) fn faults(root: &Path) -> Result<Vec<String>> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(root)
        .args(["metadata", "--format-version", "1", "--no-deps", "--locked"])
        .output()
        .context("cargo metadata did not start")?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata gave no JSON")?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let allowed: BTreeMap<_, _> = ALLOWED.into_iter().collect();
    let mut faults = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = dependency["name"].as_str().unwrap_or_default();
            let is_dev = dependency["kind"] == "dev";
            faults.extend(fault(name, used, is_dev, allowed.get(name).copied()));
        }
    }
    Ok(faults)
}

fn fault(name: &str, used: &str, is_dev: bool, allowed: Option<&[&str]>) -> Option<String> {
    // The fuzz targets are all test, and no part of a deployment.
    if used == "dormouse-testkit" && !is_dev && name != "dormouse-fuzz" {
        return Some(format!("{name} uses the testkit outside its tests"));
    }
    if let Some((_, users)) = WRAPPED.iter().find(|(wrapped, _)| *wrapped == used) {
        let user = if is_dev { format!("{name} (dev)") } else { name.to_owned() };
        let may = users.iter().any(|listed| *listed == user || (is_dev && *listed == name));
        if !may {
            return Some(format!("{user} uses {used} directly; only {} may", users.join(", ")));
        }
    }
    if is_dev {
        return None;
    }
    if name == "dormouse-domain" && !DOMAIN.contains(&used) {
        return Some(format!("the domain uses {used}; it may use {}", DOMAIN.join(", ")));
    }
    let inner = used.starts_with("dormouse-");
    match allowed {
        Some(allowed) if inner && !allowed.contains(&used) => {
            Some(format!("{name} uses {used}, which is not below it"))
        }
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_that_points_back_is_a_fault() {
        let engine: Option<&[&str]> = Some(&["dormouse-domain"]);
        assert!(fault("dormouse-engine", "dormouse-aws", false, engine).is_some());
        assert!(fault("dormouse-engine", "dormouse-domain", false, engine).is_none());
        assert!(fault("dormouse-engine", "dormouse-testkit", true, engine).is_none());
        assert!(fault("dormouse-engine", "dormouse-testkit", false, engine).is_some());
        assert!(fault("dormouse-domain", "tokio", false, Some(&[])).is_some());
        assert!(fault("dormouse-api", "aws-sdk-dynamodb", false, Some(&[])).is_some());
    }
}
