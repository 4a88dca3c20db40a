//! Images for models that take none: another model describes them.
use std::sync::Arc;

use kit::player::{Player, PlayerWire, RecordedRequest, ScriptedAnswer};
use respondent::tools::combined::CombinedTools;
use serde_json::{Value, json};

use crate::faults::player;
use crate::proxy::{Proxy, Setup};
use crate::rounds::server::{RoundClient, RoundServer, check_replay_of, history};
use crate::stored::{restarted, says};

const MODELS: &str = "models = [{ id = \"m\" }, { id = \"eyes\", images = true }]";
const DESCRIPTION: &str = "A dialog with the text 'disk full'.";
const LEFT_OUT: &str = "[An image was left out: this model takes no images.]";

fn setup(player: &Player, more: &str) -> Setup {
    let setup = Setup::new().provider(MODELS).wire_of(player);
    setup.tables(&format!("[vision]\nmodel = \"up/eyes\"\n{more}"))
}

fn image(url: &str) -> Value {
    json!({"type": "input_image", "image_url": format!("data:image/png;base64,{url}")})
}

fn user(parts: &[Value]) -> Value {
    json!({"role": "user", "content": parts})
}

fn asks(items: &[Value]) -> Value {
    json!({"model": "up/m", "prompt_cache_key": "s", "input": items})
}

/// The model of a request, and whether it has an image.
fn kind(sent: &RecordedRequest) -> (String, bool) {
    let model = sent.json()["model"].as_str().unwrap().to_owned();
    (model, sent.body.contains("base64"))
}

fn kinds(player: &Player) -> Vec<(String, bool)> {
    player.requests().iter().map(kind).collect()
}

fn eyes() -> (String, bool) {
    ("eyes".to_owned(), true)
}

fn text_only() -> (String, bool) {
    ("m".to_owned(), false)
}

/// Promise: A model that takes no images reads what the model of `[vision]` sees in them, in
/// messages and in outputs of tools. Each image is described once: the same text is sent in the
/// next requests of the session, in other sessions, and after a restart.
#[kit::test(on_each_wire)]
async fn images_are_described_once(wire: PlayerWire) {
    let player = player(wire).await;
    let setup = setup(&player, "");
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    let mut items = vec![
        user(&[
            json!({"type": "input_text", "text": "What is wrong?"}),
            image("AAAA"),
        ]),
        json!({"type": "function_call", "call_id": "c1", "name": "view_image", "arguments": "{}"}),
        json!({"type": "function_call_output", "call_id": "c1", "output": [image("BBBB")]}),
    ];
    player.push(says(DESCRIPTION));
    player.push(says("A chart."));
    player.push(says("The disk is full."));
    let reply = proxy.post(&asks(&items)).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let notes = reply.header("x-respondent-notes").unwrap();
    assert!(notes.contains("image_described"), "{notes}");
    assert_eq!(kinds(&player), [eyes(), eyes(), text_only()]);
    let first = player.requests().pop().unwrap();
    let line = "[Image, as up/eyes describes it:]";
    assert_eq!(first.body.matches(line).count(), 2, "{}", first.body);
    for text in [DESCRIPTION, "A chart."] {
        assert!(first.body.contains(text), "{}", first.body);
    }
    items.push(json!({"role": "assistant", "content": "The disk is full."}));
    items.push(user(&[json!({"type": "input_text", "text": "Which one?"})]));
    let restarted = restarted(proxy, &setup).await;
    for session in ["s", "other"] {
        player.push(says("The first one."));
        let mut asked = asks(&items);
        asked["prompt_cache_key"] = json!(session);
        restarted.response(&asked).await;
        let last = player.requests().pop().unwrap();
        assert_eq!(kind(&last), text_only());
        let (before, after) = (history(&first), history(&last));
        let before = before.as_array().unwrap();
        assert_eq!(&after.as_array().unwrap()[..before.len()], before);
    }
    assert_eq!(player.requests().len(), 5);
}

/// Promise: An image that cannot be described is left out with a line that says so, as it is
/// without `[vision]`, and is not tried again with the next request. The newest `max_images` of a
/// conversation are described, so that older ones stay as they were sent before. A model that takes
/// images gets them as they are.
#[kit::test(on_each_wire)]
async fn what_is_not_described_is_left_out(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = Proxy::start_with(&player, setup(&player, "max_images = 1")).await;
    let mut items = vec![user(&[image("AAAA"), image("BBBB")])];
    player.push(ScriptedAnswer::error(400, "no"));
    player.push(says("I see nothing."));
    player.push(says("Still nothing."));
    for _ in 0..2 {
        proxy.response(&asks(&items)).await;
    }
    items.push(user(&[image("CCCC")]));
    player.push(says(DESCRIPTION));
    player.push(says("I see a dialog."));
    proxy.response(&asks(&items)).await;
    let expected = [eyes(), text_only(), text_only(), eyes(), text_only()];
    assert_eq!(kinds(&player), expected);
    let sent = player.requests();
    assert!(sent[0].body.contains("BBBB"), "{}", sent[0].body);
    assert!(sent[3].body.contains("CCCC"), "{}", sent[3].body);
    for sent in [&sent[1], &sent[2], &sent[4]] {
        assert_eq!(sent.body.matches(LEFT_OUT).count(), 2, "{}", sent.body);
    }
    assert!(sent[4].body.contains(DESCRIPTION), "{}", sent[4].body);
    player.push(says("Three images."));
    let mut asked = asks(&items);
    asked["model"] = json!("up/eyes");
    proxy.response(&asked).await;
    let last = player.requests().pop().unwrap();
    for image in ["AAAA", "BBBB", "CCCC"] {
        assert!(last.body.contains(image), "{}", last.body);
    }
}

/// Promise: A model that has refused images gets descriptions from then on. An image beside an
/// output that is too long is described below its excerpt. Without a usable model in `[vision]`
/// images are left out as usual, and no other model is asked.
#[kit::test(on_each_wire)]
async fn descriptions_follow_what_was_learned_and_outlive_excerpts(wire: PlayerWire) {
    let player = player(wire).await;
    let setup = Setup::new().provider("models = [{ id = \"eyes\", images = true }]");
    let setup = setup.wire_of(&player);
    let named = setup.tables("[vision]\nmodel = \"up/eyes\"");
    let proxy = Proxy::start_with(&player, named).await;
    let mut asked = asks(&[user(&[image("AAAA")])]);
    player.push(ScriptedAnswer::error(400, "Image input not supported"));
    player.push(says("I see nothing."));
    proxy.response(&asked).await;
    player.push(says(DESCRIPTION));
    player.push(says("A dialog."));
    proxy.response(&asked).await;
    let sent = player.requests();
    let refused = ("m".to_owned(), true);
    assert_eq!(kinds(&player), [refused, text_only(), eyes(), text_only()]);
    assert!(sent[3].body.contains(DESCRIPTION), "{}", sent[3].body);
    let log = "A line of a long log about nothing in particular.\n".repeat(2_000);
    let output = json!([{"type": "input_text", "text": log}, image("BBBB")]);
    asked["input"] = json!([
        user(&[json!({"type": "input_text", "text": "Look."})]),
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": output},
    ]);
    player.push(says("A red button."));
    player.push(says("There is a button."));
    proxy.response(&asked).await;
    let last = player.requests().pop().unwrap();
    assert!(last.body.len() < 20_000, "{}", last.body.len());
    assert!(last.body.contains("A red button."), "{}", last.body);
    let unusable = Setup::new().provider(MODELS).wire_of(&player);
    let unusable = unusable.provider("passthrough = false");
    let before = player.requests().len();
    let unusable = unusable.tables("[vision]\nmodel = \"nobody/eyes\"");
    let proxy = Proxy::start_with(&player, unusable).await;
    for _ in 0..2 {
        player.push(says("I see nothing."));
        proxy.response(&asks(&[user(&[image("CCCC")])])).await;
    }
    assert_eq!(kinds(&player)[before..], [text_only(), text_only()]);
    let last = player.requests().pop().unwrap();
    assert!(last.body.contains(LEFT_OUT), "{}", last.body);
}

/// Promise: A recorded turn with images that were described is replayed without the model that
/// describes them.
#[kit::test(on_each_wire)]
async fn a_turn_with_described_images_is_replayed(wire: PlayerWire) {
    let player = player(wire).await;
    let settings = format!("{MODELS}\n[vision]\nmodel = \"acme/eyes\"");
    let tools = Arc::new(CombinedTools::new(Vec::new()));
    let rounds = RoundServer::with_tools(&[&player], tools, &settings);
    player.push(says(DESCRIPTION));
    player.push(says("The disk is full."));
    let mut asked = asks(&[user(&[image("AAAA")])]);
    asked["model"] = json!("acme/m");
    let response = rounds.answer(&asked, RoundClient::Streaming).await;
    assert_eq!(
        response["output"][0]["content"][0]["text"],
        "The disk is full."
    );
    assert_eq!(kinds(&player), [eyes(), text_only()]);
    check_replay_of(&rounds.recording());
    assert_eq!(player.requests().len(), 2);
}
