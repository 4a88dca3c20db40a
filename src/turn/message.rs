//! Answers the messages of a WebSocket: each is a request for a response.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use adapters::fault::Fault;
use adapters::responses::client_event::CreateEvent;
use futures_util::FutureExt as _;

use super::caller::set_turn_metadata;
use super::engine::Step;
use super::received::ReceivedRequest;
use super::request::TurnRequest;
use super::respond::begin;
use super::service::Service;
use super::sink::{ChunkSlot, MessageSink, Sink};
use super::stream::EventStream;
use super::turn_memory::ReceivedBody;
use super::workflow::continued_run;
use crate::net::memory::MemoryShare;
use crate::responses::ConnectionResponses;

/// A request for a response on a WebSocket.
pub struct MessageRequest {
    /// The request, with the headers of the handshake.
    pub request: TurnRequest,
    /// What the client asks for.
    pub event: CreateEvent,
    /// The memory of its body.
    pub memory: MemoryShare,
    /// The earlier responses of the connection, which the request may continue.
    pub connection: Arc<ConnectionResponses>,
}

/// The turn of a message. It runs when its frames are asked for; dropping it ends it.
pub fn message_turn(service: &Arc<Service>, request: MessageRequest) -> EventStream {
    let slot = ChunkSlot::default();
    let sink = MessageSink {
        slot: slot.clone(),
        stream_id: request.event.stream_id.clone(),
        reply: None,
        continued: request.event.continues.clone(),
        connection: Arc::clone(&request.connection),
    };
    let service = Arc::clone(service);
    EventStream::new(Box::pin(run_message(service, request, sink)), slot)
}

async fn run_message(
    service: Arc<Service>,
    request: MessageRequest,
    mut sink: MessageSink,
) -> Result<(), Fault> {
    let panicked = AssertUnwindSafe(answer_message(&service, request, &mut sink)).catch_unwind();
    if panicked.await.is_err() {
        sink.refuse(&Fault::defect(), false).await;
    }
    Ok(())
}

async fn answer_message(service: &Arc<Service>, message: MessageRequest, sink: &mut MessageSink) {
    let MessageRequest {
        mut request,
        event,
        memory,
        connection,
    } = message;
    if let Some(metadata) = &event.codex_metadata {
        set_turn_metadata(&mut request.headers, metadata);
    }
    let config = service.config.load_full();
    let mut ctx = service.turn_context(&request, &config);
    ctx.connection = Some(connection);
    let codex = ctx.caller.codex;
    let mut body = ReceivedBody {
        text: event.body,
        memory,
    };
    let continued = continued_run(service, &request.owner, &mut body).await;
    let received = ReceivedRequest::new(service, config, request, ctx, body, continued);
    let (mut turn, reply) = match begin(received).await {
        Ok(begun) => begun,
        Err((fault, reply)) => {
            reply.fault(&fault);
            return sink.refuse(&fault, codex).await;
        }
    };
    if !event.generate && !matches!(turn.request.first_step, Step::Failed(_)) {
        turn.request.first_step = Step::Nothing;
    }
    sink.reply = Some(reply);
    if let Err(fault) = Box::pin(turn.run(Sink::Message(sink))).await {
        if let Some(reply) = sink.reply.take() {
            reply.fault(&fault);
        }
        sink.refuse(&fault, codex).await;
    }
}
