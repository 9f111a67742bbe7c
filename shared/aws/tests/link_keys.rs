//! What is asked of Secrets Manager, and what is made of its answers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy knows test functions, not the rest of a test crate"
)]

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_smithy_runtime_api::client::{
    http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn},
    orchestrator::{HttpRequest, HttpResponse},
};
use aws_smithy_types::body::SdkBody;
use dormouse_aws::{KEYS_FRESH, SecretKeys};
use dormouse_domain::{
    Digest, Millis, Principal, RequestId, RequestKey, RunId,
    request::DecisionKind,
    token::{KeyRing, Link, TokenId},
};
use dormouse_engine::ports::{Keys as _, KeysError};
use serde_json::{Value, json};

/// Answers requests from a list, and notes them.
#[derive(Debug, Clone, Default)]
struct Secrets {
    answers: Arc<Mutex<VecDeque<(u16, Value)>>>,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl HttpConnector for Secrets {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default().to_owned();
        let body = serde_json::from_slice(request.body().bytes().unwrap()).unwrap();
        self.asked.lock().unwrap().push((target, body));
        let refused = (400, json!({ "__type": "InvalidRequestException", "message": "no" }));
        let (status, answer) = self.answers.lock().unwrap().pop_front().unwrap_or(refused);
        let mut response = HttpResponse::new(status.try_into().unwrap(), SdkBody::from(answer.to_string()));
        response.headers_mut().insert("content-type", "application/x-amz-json-1.1");
        HttpConnectorFuture::ready(Ok(response))
    }
}

impl Secrets {
    fn keys(&self) -> SecretKeys {
        let connector = SharedHttpConnector::new(self.clone());
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("eu-central-1"))
            .endpoint_url("http://secrets.test")
            .credentials_provider(SharedCredentialsProvider::new(Credentials::new("id", "secret", None, None, "test")))
            .http_client(http_client_fn(move |_, _| connector.clone()))
            .build();
        SecretKeys::connect(&config, "dormouse/links".to_owned())
    }

    fn hold(&self, text: &str) {
        self.answers.lock().unwrap().push_back((200, json!({ "Name": "dormouse/links", "SecretString": text })));
    }

    fn times_asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

fn link() -> Link {
    Link {
        id: TokenId::from_bits(1),
        request: RequestId { run: RunId::from_bits(1), key: RequestKey::new(3, 0) },
        digest: Digest::of(b"arguments"),
        decisions: vec![DecisionKind::Approve],
        expires_at: Millis(1),
        issuer: Principal { tenant: "acme".into(), subject: "ann".into() },
    }
}

#[tokio::test(start_paused = true)]
async fn x6_keys_are_read_once_in_some_minutes_and_a_change_takes_effect() {
    let secrets = Secrets::default();
    let keys = secrets.keys();
    let (old, new) = (KeyRing::text_of_one("old", &[1; 32]), KeyRing::text_of_one("new", &[2; 32]));
    secrets.hold(&old);
    let token = keys.ring().await.unwrap().sign(&link()).unwrap();
    let asked = secrets.asked.lock().unwrap()[0].clone();
    assert_eq!(asked, ("secretsmanager.GetSecretValue".to_owned(), json!({ "SecretId": "dormouse/links" })));
    secrets.hold(&new);
    tokio::time::advance(KEYS_FRESH - Duration::from_millis(1)).await;
    assert_eq!(keys.ring().await.unwrap().open::<Link>(&token), Some(link()));
    assert_eq!(secrets.times_asked(), 1);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(keys.ring().await.unwrap().open::<Link>(&token), None);
    assert_eq!(secrets.times_asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn x6_keys_that_cannot_be_read_are_none_and_are_not_quoted() {
    let secrets = Secrets::default();
    let keys = secrets.keys();
    secrets.hold(&KeyRing::text_of_one("a", &[1; 32]));
    keys.ring().await.unwrap();
    tokio::time::advance(KEYS_FRESH).await;
    // Refused: those of before are not used on.
    assert!(matches!(keys.ring().await, Err(KeysError::Unavailable(_))));
    for text in ["hunter2", r#"{"keys":[{"id":"a","secret":"hunter2"}]}"#, r#"{"keys":[]}"#] {
        secrets.hold(text);
        let error = keys.ring().await.unwrap_err();
        assert!(matches!(&error, KeysError::Unavailable(why) if why.contains("dormouse/links")), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    // And no failure is remembered.
    secrets.hold(&KeyRing::text_of_one("a", &[1; 32]));
    keys.ring().await.unwrap();
}
