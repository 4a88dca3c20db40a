//! The bytes of an answer, as events or as one document, become [`Event`]s.

use registry::Quirks;

use super::decode::Decoder;
use crate::event::Event;
use crate::fault::{Fault, Kind};
use crate::sse;

/// The state of one answer.
#[derive(Debug)]
pub struct Reader {
    form: Form,
    chat: Decoder,
}

/// How the answer is framed. Servers that do not stream answer with a JSON
/// document, and content types are not always true: the first character tells.
#[derive(Debug, Default)]
enum Form {
    #[default]
    Unknown,
    Events(sse::Decoder),
    Document(Vec<u8>),
}

impl Reader {
    /// A reader of an answer by a model with these quirks.
    pub fn new(quirks: &Quirks) -> Self {
        Self {
            form: Form::default(),
            chat: Decoder::new(quirks),
        }
    }

    /// Whether the answer is complete, although more may follow: token counts.
    pub fn is_complete(&self) -> bool {
        self.chat.is_complete()
    }

    /// Takes the next bytes, however they were cut. The fault is an event or a
    /// document beyond the limit of [`sse::Decoder`].
    pub fn feed(&mut self, bytes: &[u8], emit: &mut impl FnMut(Event<'_>)) -> Result<(), Fault> {
        if matches!(self.form, Form::Unknown) {
            self.form = match bytes.trim_ascii_start().first() {
                None => return Ok(()),
                Some(b'{') => Form::Document(Vec::new()),
                Some(_) => Form::Events(sse::Decoder::default()),
            };
        }
        let chat = &mut self.chat;
        match &mut self.form {
            Form::Unknown => Ok(()),
            Form::Events(sse) => sse
                .feed(bytes, &mut |event| chat.data(&event.data, emit))
                .map_err(too_large),
            Form::Document(document)
                if document.len() + bytes.len() > sse::Decoder::DEFAULT_LIMIT =>
            {
                Err(too_large(sse::TooLarge {
                    limit: sse::Decoder::DEFAULT_LIMIT,
                }))
            }
            Form::Document(document) => {
                document.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// The body is over: tells how the answer ended.
    pub fn end(&mut self, emit: &mut impl FnMut(Event<'_>)) -> Result<(), Fault> {
        let chat = &mut self.chat;
        match std::mem::take(&mut self.form) {
            Form::Unknown => {}
            Form::Events(sse) => sse
                .finish(&mut |event| chat.data(&event.data, emit))
                .map_err(too_large)?,
            Form::Document(document) => chat.data(&String::from_utf8_lossy(&document), emit),
        }
        chat.end(emit);
        Ok(())
    }
}

fn too_large(error: sse::TooLarge) -> Fault {
    Fault::new(
        Kind::BadReply,
        format!(
            "The provider sent an event of more than {} bytes.",
            error.limit
        ),
    )
}
