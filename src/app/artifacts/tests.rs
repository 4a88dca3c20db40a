use axum::response::IntoResponse;
use http::header::RETRY_AFTER;
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use serde_json::Value;

use super::error::ArtifactHttpError;
use super::*;
use crate::app::answer_artifact_request;
use crate::artifacts::owner::{OwnerArtifacts, ReadError, owner_with_texts};

struct Reply {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Reply {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap().to_str().unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap().to_owned()
    }
}

async fn request(
    owned: &OwnerArtifacts,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Reply {
    let mut builder = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    let (head, ()) = builder.body(()).unwrap().into_parts();
    let (head, body) = answer_artifact_request(owned, head).await.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Reply {
        status: head.status.as_u16(),
        headers: head.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    }
}

async fn get(owned: &OwnerArtifacts, path: &str) -> Reply {
    request(owned, "GET", path, &[]).await
}

const TEXT: &str = "one\ntwo error\ndrei äöü\n四\nfive";

#[tokio::test]
async fn an_artifact_is_read_whole_and_in_parts() {
    let (owned, ids) = owner_with_texts(&[TEXT]).await;
    let path = format!("/v1/artifacts/{}", ids[0]);
    let whole = get(&owned, &path).await;
    assert_eq!((whole.status, &*whole.body), (200, TEXT));
    assert_eq!(whole.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(whole.header("x-artifact-kind"), "command_output");
    assert_eq!(whole.header("x-artifact-bytes"), TEXT.len().to_string());
    assert_eq!(whole.header("x-artifact-call-id"), "call_0");
    for (query, text, line) in [
        ("bytes=4-12", "two error", "2"),
        ("bytes=0-2", "one", "1"),
        ("bytes=4-", TEXT.split_once('\n').unwrap().1, "2"),
        // Within ä, which comes whole.
        ("bytes=20-20", "ä", "3"),
        ("lines=2-3", "two error\ndrei äöü\n", "2"),
        ("lines=5-", "five", "5"),
        ("lines=9-10", "", "5"),
    ] {
        let part = get(&owned, &format!("{path}?{query}")).await;
        assert_eq!((part.status, &*part.body), (200, text), "{query}");
        assert_eq!(part.header("x-artifact-first-line"), line, "{query}");
    }
    let json = get(&owned, &format!("{path}?lines=2-2&format=json"))
        .await
        .json();
    assert_eq!(json["text"], "two error\n");
    assert_eq!(json["from_byte"], 4);
    assert_eq!(json["id"], *ids[0]);
    let asked = request(&owned, "GET", &path, &[("accept", "application/json")]).await;
    assert_eq!(asked.json()["text"], TEXT);
}

#[tokio::test]
async fn ranges_are_those_of_http() {
    let (owned, ids) = owner_with_texts(&[TEXT]).await;
    let path = format!("/v1/artifacts/{}", ids[0]);
    for (range, status, body, place) in [
        ("bytes=0-2", 206, "one", "bytes 0-2/34"),
        ("bytes=-4", 206, "five", "bytes 30-33/34"),
        ("bytes=30-99", 206, "five", "bytes 30-33/34"),
        ("bytes=20-20", 206, "ä", "bytes 19-20/34"),
    ] {
        let part = request(&owned, "GET", &path, &[("range", range)]).await;
        assert_eq!((part.status, &*part.body), (status, body), "{range}");
        assert_eq!(part.header("content-range"), place, "{range}");
    }
    let beyond = request(&owned, "GET", &path, &[("range", "bytes=34-40")]).await;
    assert_eq!(
        (beyond.status, &*beyond.code()),
        (416, "range_not_satisfiable")
    );
    assert_eq!(beyond.header("content-range"), "bytes */34");
    let several = request(&owned, "GET", &path, &[("range", "bytes=0-1,3-4")]).await;
    assert_eq!((several.status, &*several.body), (200, TEXT));
}

#[tokio::test]
async fn an_artifact_is_searched() {
    let (owned, ids) = owner_with_texts(&[TEXT]).await;
    let path = format!("/v1/artifacts/{}/search", ids[0]);
    let found = get(
        &owned,
        &format!("{path}?q=ERROR&ignore_case=true&context=1"),
    )
    .await;
    let found: ArtifactMatches = serde_json::from_str(&found.body).unwrap();
    assert_eq!((found.matches, found.shown, found.has_more), (1, 1, false));
    let lines: Vec<_> = found
        .lines
        .iter()
        .map(|line| (line.line, line.byte))
        .collect();
    assert_eq!(lines, [(1, 0), (2, 4), (3, 14)]);
    let first = get(&owned, &format!("{path}?q=%5Eo%7Cfive&regex=1&limit=1"))
        .await
        .json();
    assert_eq!(
        (&first["matches"], &first["next_byte"]),
        (&2.into(), &30.into())
    );
    let bad = get(&owned, &format!("{path}?q=(&regex=true")).await;
    assert_eq!((bad.status, &*bad.code()), (400, "invalid_value"));
    assert_eq!(bad.json()["error"]["param"], "q");
    assert!(bad.body.contains("unclosed group"), "{}", bad.body);
    assert_eq!(get(&owned, &path).await.status, 400);
}

#[tokio::test]
async fn lists_have_pages() {
    let (owned, ids) = owner_with_texts(&["a", "b", "c"]).await;
    let list = |query: String| {
        let owned = owned.clone();
        async move {
            let answer = get(&owned, &format!("/v1/artifacts{query}")).await;
            serde_json::from_str::<ArtifactList>(&answer.body).unwrap()
        }
    };
    let all = list(String::new()).await;
    let listed: Vec<_> = all.data.iter().map(|known| &known.id).collect();
    assert_eq!(listed, [&ids[2], &ids[1], &ids[0]]);
    assert_eq!(
        (all.has_more, all.first_id.as_ref()),
        (false, Some(&ids[2]))
    );
    let first = list("?limit=2".to_owned()).await;
    assert_eq!((first.data.len(), first.has_more), (2, true));
    let next = list(format!("?limit=2&after={}", first.last_id.unwrap())).await;
    assert_eq!(next.data[0].id, ids[0]);
    assert!(!next.has_more);
    let none = list("?session=other".to_owned()).await;
    assert_eq!((none.data.len(), none.last_id), (0, None));
    for bad in ["limit=0", "limit=101", "after=x", "bogus=1"] {
        let answer = get(&owned, &format!("/v1/artifacts?{bad}")).await;
        assert_eq!(
            (answer.status, &*answer.code()),
            (400, "invalid_value"),
            "{bad}"
        );
    }
}

#[tokio::test]
async fn missing_and_unreadable_artifacts_have_different_errors() {
    let (owned, ids) = owner_with_texts(&["a"]).await;
    let path = format!("/v1/artifacts/{}", ids[0]);
    let gone = request(&owned, "DELETE", &path, &[]).await;
    assert_eq!(
        (gone.status, gone.json()["deleted"].as_bool()),
        (200, Some(true))
    );
    for (method, path) in [
        ("GET", path.clone()),
        ("DELETE", path.clone()),
        ("GET", format!("{path}/search?q=a")),
        ("GET", "/v1/artifacts/art_1".to_owned()),
        ("DELETE", "/v1/artifacts/x".to_owned()),
    ] {
        let missing = request(&owned, method, &path, &[]).await;
        assert_eq!(
            (missing.status, &*missing.code()),
            (404, NOT_FOUND),
            "{method} {path}"
        );
    }
    assert!(
        get(&owned, &path)
            .await
            .body
            .contains("30 days after their last use")
    );
    let error = crate::artifacts::ArtifactError {
        warning: "ARTIFACT_STORE_READ_FAILED",
        message: "a path".to_owned(),
    };
    let response = ArtifactHttpError::Unread(ReadError::Store(error)).into_response();
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()[RETRY_AFTER], "1");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let body = String::from_utf8(body.to_vec()).unwrap();
    assert!(body.contains(STORE_ERROR) && body.contains("send the same request again"));
    assert!(!body.contains("a path"), "{body}");
}

#[tokio::test]
async fn other_paths_and_methods_are_refused() {
    let (owned, ids) = owner_with_texts(&["a"]).await;
    for path in [
        format!("/v1/artifacts/{}/x", ids[0]),
        format!("/v1/artifacts/{}/search/x", ids[0]),
        "/v1/artifacts//search".to_owned(),
        "/v1/artifacts/../artifacts".to_owned(),
    ] {
        let reply = get(&owned, &path).await;
        assert_eq!(
            (reply.status, &*reply.code()),
            (404, "unknown_url"),
            "{path}"
        );
    }
    for (method, path, allow) in [
        (
            "DELETE",
            format!("/v1/artifacts/{}/search", ids[0]),
            "GET, HEAD",
        ),
        ("DELETE", "/v1/artifacts".to_owned(), "GET, HEAD"),
        ("GET", "/v1/artifacts/expired".to_owned(), "DELETE"),
        (
            "POST",
            format!("/v1/artifacts/{}", ids[0]),
            "GET, HEAD, DELETE",
        ),
    ] {
        let reply = request(&owned, method, &path, &[]).await;
        assert_eq!(
            (reply.status, reply.header("allow")),
            (405, allow),
            "{method} {path}"
        );
    }
    let swept = request(&owned, "DELETE", "/v1/artifacts/expired", &[]).await;
    assert_eq!(swept.json()["object"], "artifact.sweep");
}

#[tokio::test]
async fn only_the_id_itself_names_an_artifact() {
    let (owned, ids) = owner_with_texts(&["a"]).await;
    let id = &ids[0];
    for prefix in ["/v1", "/openai/v1", ""] {
        let path = format!("{prefix}/artifacts/{id}");
        assert_eq!(get(&owned, &path).await.body, "a");
        assert_eq!(get(&owned, &format!("{path}/")).await.body, "a");
    }
    for path in [
        format!("/v1/artifacts/..%2fartifacts%2f{id}"),
        format!("/v1/artifacts/{}", id.to_uppercase()),
        format!("/v1/artifacts/{id}%20"),
        format!("/v1/artifacts/{id}%2fsearch"),
        "/v1/artifacts/%FF".to_owned(),
        "/v1/artifacts/%2e%2e".to_owned(),
    ] {
        let reply = get(&owned, &path).await;
        assert_eq!((reply.status, &*reply.code()), (404, NOT_FOUND), "{path}");
    }
}
