//! Images for models that take none: another model describes them.
use std::sync::Arc;

use kit::player::{Player, PlayerWire, RecordedRequest, ScriptedAnswer};
use respondent::tools::combined::CombinedTools;
use serde_json::{Value, json};

use crate::faults::{answer, player};
use crate::proxy::{Proxy, Setup};
use crate::rounds::server::{RoundClient, RoundServer, check_replay_of, history};
use crate::stored::restarted;

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

fn says(text: &str) -> ScriptedAnswer {
    answer(json!([{"text": text}]))
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
/// without `[vision]`, and is not tried again with the next request. Of many new images the newest
/// `max_images` are described. A model that takes images gets them as they are.
#[kit::test(on_each_wire)]
async fn what_is_not_described_is_left_out(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = Proxy::start_with(&player, setup(&player, "max_images = 1")).await;
    let items = [user(&[image("AAAA"), image("BBBB")])];
    player.push(ScriptedAnswer::error(400, "no"));
    player.push(says("I see nothing."));
    player.push(says(DESCRIPTION));
    player.push(says("I see a dialog."));
    for _ in 0..2 {
        let asked = asks(&items[..1]);
        proxy.response(&asked).await;
    }
    // The second request has the older image described, which was not tried.
    assert_eq!(kinds(&player), [eyes(), text_only(), eyes(), text_only()]);
    let sent = player.requests();
    assert!(sent[0].body.contains("BBBB"), "{}", sent[0].body);
    assert_eq!(
        sent[1].body.matches(LEFT_OUT).count(),
        2,
        "{}",
        sent[1].body
    );
    assert!(sent[2].body.contains("AAAA"), "{}", sent[2].body);
    assert_eq!(
        sent[3].body.matches(LEFT_OUT).count(),
        1,
        "{}",
        sent[3].body
    );
    assert!(sent[3].body.contains(DESCRIPTION), "{}", sent[3].body);
    player.push(says("Two images."));
    let mut asked = asks(&items);
    asked["model"] = json!("up/eyes");
    proxy.response(&asked).await;
    let last = player.requests().pop().unwrap();
    assert!(last.body.contains("AAAA") && last.body.contains("BBBB"));
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
