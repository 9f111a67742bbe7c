//! The page at `/`: what waits, and how to answer it.

use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};

const PAGE: &str = include_str!("page.html");

/// Only the page's own style and script, and requests to its own origin.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) fn response() -> Response {
    let mut response = PAGE.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C3: what comes from a run is shown as text. No script of the page can make markup of it, and the policy lets
    /// none that it brings along load or send anything.
    #[test]
    fn c3_the_page_shows_text_only() {
        let markup = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "DOMParser",
            "eval(",
            "srcdoc",
            "href =",
        ];
        for way in markup {
            assert!(!PAGE.contains(way), "{way}");
        }
        // Text becomes part of the page in one place.
        assert_eq!(PAGE.matches("textContent = text").count(), 1);
        let policy = response().headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
        assert!(policy.starts_with("default-src 'none'") && policy.contains("connect-src 'self'"), "{policy}");
    }

    /// C3: all that a request says of a call is on its card, and one that the list cut is loaded whole first.
    #[test]
    fn c3_the_page_shows_the_whole_request() {
        let card = PAGE.split("function card(").nth(1).and_then(|rest| rest.split("async function").next()).unwrap();
        let shown =
            ["summary", "arguments", "reasons", "agents", "warnings", "preview", "question", "options", "decide_by"];
        for field in shown {
            assert!(card.contains(&format!("request.{field}")), "{field}");
        }
        assert!(PAGE.contains("request.cut ? (await fetch(`/v1/requests/"));
    }
}
