//! The safety floor: what asks even under `yolo` and with a standing rule (C2).
//!
//! It is data in code, so that nothing that a run, a person or an agent file says can take from it. Agent
//! files and a deployment add to it.

use std::sync::LazyLock;

use super::{
    glob::Glob,
    matcher::{Match, command_pattern, host_pattern, runs},
    path::Pattern,
    subject::Subject,
};

/// A kind of things that are protected, and how they are named.
struct Kind {
    what: &'static str,
    paths: &'static [&'static str],
    hosts: &'static [&'static str],
    commands: &'static [&'static str],
}

/// The floor.
const FLOOR: [Kind; 10] = [
    Kind {
        what: "ssh keys",
        paths: &[
            ".ssh",
            "~/.ssh",
            "id_rsa*",
            "id_dsa*",
            "id_ecdsa*",
            "id_ed25519*",
            "authorized_keys*",
            "ssh_host_*_key*",
            "/etc/ssh",
            "*.ppk",
            "/run/user/*/keyring",
        ],
        hosts: &[],
        commands: &[],
    },
    Kind { what: "environment files", paths: &[".env*", ".envrc", "/proc/*/environ"], hosts: &[], commands: &[] },
    Kind {
        what: "credentials of clouds",
        paths: &[
            ".aws",
            "~/.aws",
            ".azure",
            "~/.azure",
            ".config/gcloud",
            "~/.config/gcloud",
            ".oci",
            ".doctl",
            ".fly",
            "application_default_credentials.json",
            "*service-account*.json",
            "*service_account*.json",
            ".boto",
            ".s3cfg",
            "rclone.conf",
            ".terraform.d",
            "terraform.tfstate*",
            "*.tfvars",
            ".vault-token",
            "doctl/config.yaml",
        ],
        hosts: &[],
        commands: &[
            "aws secretsmanager *",
            "aws configure export-credentials",
            "aws sts get-session-token",
            "gcloud auth print-*",
            "gcloud secrets *",
            "az account get-access-token",
            "az keyvault secret *",
            "vault read *",
            "vault kv *",
            "heroku auth:token",
        ],
    },
    Kind {
        what: "credentials of package registries",
        paths: &[
            ".npmrc",
            ".yarnrc*",
            ".pypirc",
            ".cargo/credentials*",
            "~/.cargo/credentials",
            ".gem/credentials",
            ".m2/settings*.xml",
            ".gradle/gradle.properties",
            ".nuget/nuget.config",
            "~/.config/pip",
            "pip.conf",
            ".composer/auth.json",
            ".terraformrc",
        ],
        hosts: &[],
        commands: &[],
    },
    Kind {
        what: "credentials of git and the network",
        paths: &[
            ".git-credentials",
            "~/.git-credentials",
            ".netrc",
            "_netrc",
            ".config/gh",
            "gh/hosts.yml",
            ".config/hub",
            "glab-cli",
            ".curlrc",
            ".wgetrc",
            ".config/git/credentials",
        ],
        hosts: &[],
        commands: &["gh auth token", "git credential *", "git credential-*"],
    },
    Kind {
        what: "credentials of containers and clusters",
        paths: &[
            ".docker/config.json",
            ".dockercfg",
            "~/.docker",
            ".kube",
            "~/.kube",
            "kubeconfig*",
            "*.kubeconfig",
            "docker.sock",
            "containerd.sock",
            "/var/run/secrets",
            "/run/secrets",
            "/etc/kubernetes",
            ".helm",
        ],
        hosts: &[],
        commands: &["kubectl get *secret*", "kubectl describe *secret*"],
    },
    Kind {
        what: "key and password stores",
        paths: &[
            ".gnupg",
            "~/.gnupg",
            ".password-store",
            "~/.password-store",
            "?*.pem",
            "?*.key",
            "*.p12",
            "*.pfx",
            "*.jks",
            "*.keystore",
            "*.kdbx",
            "*.kdb",
            "?*.asc",
            "?*.gpg",
            "login.keychain*",
            "~/library/keychains",
            "keychains",
            "login data",
            "cookies.sqlite",
            "logins.json",
            "key4.db",
            ".pgpass",
            ".my.cnf",
            ".mylogin.cnf",
            ".htpasswd",
            "wallet.dat",
            "secrets.y*ml",
            "secrets.json",
            "secrets.toml",
            "credentials.json",
            "credentials.y*ml",
            "credentials.toml",
            "client_secret*.json",
            ".vault_pass*",
            "master.key",
        ],
        hosts: &[],
        commands: &[
            "gpg *--export-secret*",
            "gpg2 *--export-secret*",
            "security find-*-password",
            "security dump-keychain",
            "secret-tool lookup",
            "pass show *",
            "op read *",
            "op item *",
            "bw get *",
        ],
    },
    Kind {
        what: "accounts of the system",
        paths: &[
            "/etc/shadow*",
            "/etc/gshadow*",
            "/etc/sudoers",
            "/etc/sudoers.d",
            "/etc/master.passwd",
            "/etc/security",
            "/etc/pam.d",
            "/etc/krb5.keytab",
            "/proc/*/mem",
            "/proc/kcore",
            "/dev/mem",
            "/dev/sd*",
            "/dev/nvme*",
            "/dev/disk",
            "/windows/system32/config",
            "ntuser.dat",
            "ntds.dit",
        ],
        hosts: &[],
        commands: &[],
    },
    Kind {
        what: "deploy scripts, CI configuration and git hooks",
        paths: &[
            "deploy.sh",
            "deploy-*.sh",
            "deploy_*.sh",
            "*-deploy.sh",
            "*_deploy.sh",
            "deploy.ps1",
            "bin/deploy*",
            "script/deploy*",
            "scripts/deploy*",
            "scripts/*-deploy*",
            "scripts/*_deploy*",
            "ci/deploy*",
            "capfile",
            ".github/workflows",
            ".github/actions",
            ".gitlab-ci.yml",
            ".gitlab-ci.yaml",
            ".circleci",
            "jenkinsfile*",
            "azure-pipelines.y*ml",
            ".travis.yml",
            ".buildkite",
            ".drone.yml",
            "bitbucket-pipelines.yml",
            "appveyor.yml",
            ".git/hooks",
            ".git/config",
            ".husky",
            ".githooks",
            ".pre-commit-config.yaml",
            "buildspec.y*ml",
        ],
        hosts: &[],
        commands: &["git config *hookspath*"],
    },
    Kind {
        what: "metadata services, which give out credentials",
        paths: &[],
        hosts: &[
            "169.254.169.254",
            "169.254.170.2",
            "169.254.170.23",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "metadata.google.internal",
            "metadata.goog",
            "instance-data",
            "instance-data.ec2.internal",
            "100.100.100.200",
            "192.0.0.192",
            "168.63.129.16",
            "169.254.169.254.*",
        ],
        commands: &[],
    },
];

/// A name, and the pattern that it is.
type Named<T> = (&'static str, T);

/// The same, ready to be matched.
struct Ready {
    what: &'static str,
    paths: Vec<Named<Pattern>>,
    hosts: Vec<Named<Glob>>,
    commands: Vec<Named<Vec<Glob>>>,
}

static READY: LazyLock<Vec<Ready>> = LazyLock::new(|| {
    fn ready<T>(names: &'static [&'static str], pattern: impl Fn(&str) -> T) -> Vec<Named<T>> {
        names.iter().map(|name| (*name, pattern(name))).collect()
    }
    let all = FLOOR.iter().map(|kind| Ready {
        what: kind.what,
        paths: ready(kind.paths, Pattern::by_name),
        hosts: ready(kind.hosts, host_pattern),
        commands: ready(kind.commands, command_pattern),
    });
    all.collect()
});

/// What of the floor an argument touches.
pub(super) fn holds(subject: &Subject<'_>) -> Match {
    fn each<T>(kind: &Ready, named: &[Named<T>], subject: &Subject<'_>, found: impl Fn(&T) -> Match) -> Match {
        Match::any(named, |(name, pattern)| subject.tell(found(pattern), || format!("{name}, of {}", kind.what)))
    }
    Match::any(READY.iter(), |kind| {
        each(kind, &kind.paths, subject, |pattern| subject.touches(pattern))
            .or(|| each(kind, &kind.hosts, subject, |pattern| subject.reaches(pattern)))
            .or(|| each(kind, &kind.commands, subject, |pattern| runs(pattern, subject)))
    })
}

/// The floor in words, for the documentation: each kind with what names it.
#[must_use]
pub fn list() -> Vec<(&'static str, Vec<&'static str>)> {
    let named = FLOOR.iter().map(|kind| (kind.what, [kind.paths, kind.hosts, kind.commands].concat()));
    named.collect()
}
