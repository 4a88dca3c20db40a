//! `[webhooks]`.
use super::*;
use crate::config::WebhookEvent;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLw==";

/// A webhook with these lines in its table.
fn webhook(lines: &str) -> TestInputs {
    TestInputs::new(&format!("[webhooks.hook]\n{lines}")).set("HOOK_SECRET", SECRET)
}

#[test]
fn a_webhook_has_its_secret_from_where_keys_come_from() {
    let url = "url = \"https://hooks.example/a?token=t-1234567890123\"\n";
    for secret in [
        "secret_env = \"HOOK_SECRET\"".to_owned(),
        format!("secret = \"{SECRET}\""),
        format!("secret_command = [\"echo\", \"{SECRET}\"]"),
    ] {
        let config = webhook(&format!("{url}{secret}")).config();
        let [found] = config.webhooks.as_slice() else {
            panic!("{secret}")
        };
        assert_eq!((&*found.name, &*found.host()), ("hook", "hooks.example"));
        assert_eq!(found.secrets[0].expose(), SECRET);
        assert!(found.takes(WebhookEvent::Cancelled));
        let report = crate::config::report::report(&config);
        assert!(
            report.contains("webhook    hook -> hooks.example: all events"),
            "{report}"
        );
        assert!(
            !report.contains("whsec") && !report.contains("t-1234"),
            "{report}"
        );
        let bare = SECRET.trim_start_matches("whsec_");
        for text in [SECRET, bare, "/a?token=t-1234567890123"] {
            let told = format!("it is {text} here");
            let redacted = config.redactor().redact(&told);
            assert!(!redacted.contains(text), "{redacted}");
        }
    }
    let some = format!("{url}secret_env = \"HOOK_SECRET\"\nevents = [\"response.failed\"]");
    let config = webhook(&some).config();
    let takes = |event| config.webhooks[0].takes(event);
    assert!(takes(WebhookEvent::Failed) && !takes(WebhookEvent::Completed));
}

#[test]
fn mistakes_in_a_webhook_are_told() {
    let good = "url = \"https://hooks.example/a\"\n";
    for (lines, why) in [
        (
            "secret_env = \"HOOK_SECRET\"".to_owned(),
            "url is not a URL",
        ),
        (
            "url = \"http://10.0.0.7/\"\nsecret_env = \"HOOK_SECRET\"".to_owned(),
            "url is http to another host",
        ),
        (good.to_owned(), "it needs a secret: give secret_env"),
        (
            format!("{good}secret = \"hunter2hunter2\""),
            "a secret is whsec_",
        ),
        (
            format!("{good}secret = \"whsec_AAAA\""),
            "a secret is whsec_",
        ),
        (
            format!("{good}secret_env = \"HOOK_SECRET\"\nsecret = \"{SECRET}\""),
            "give secret_env or secret, not both",
        ),
        (
            format!("{good}secret_env = \"HOOK_SECRET\"\nevents = []"),
            "events is empty",
        ),
        (
            format!("{good}secret_env = \"HOOK_SECRET\"\nevents = [\"response.done\"]"),
            "response.cancelled",
        ),
    ] {
        let error = webhook(&lines).error();
        assert!(error.contains(why), "{lines}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn a_webhook_without_its_secret_is_off_and_one_without_stored_responses_is_reported() {
    let url = "url = \"https://hooks.example/a\"\n";
    let config = webhook(&format!("{url}secret_env = \"NO_SECRET\"")).config();
    assert!(config.webhooks.is_empty());
    assert_eq!(
        config.warnings,
        ["webhook `hook` is off: the environment has no NO_SECRET"]
    );
    let off = format!("{url}secret_env = \"HOOK_SECRET\"\n[responses]\nmode = \"off\"");
    let warnings = webhook(&off).config().warnings;
    assert!(
        warnings[0].contains("need stored responses"),
        "{warnings:?}"
    );
}
