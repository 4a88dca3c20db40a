//! The result of a call as text, for a provider that takes nothing else.

use crate::content::MessageContent;
use crate::fault::Fault;
use crate::json;
use crate::media::AcceptedMedia;
use crate::notes::Notes;
use crate::text::Text;
use crate::turn::{Item, ItemKind};

/// The result of a call that has none. Constant, so that the bytes of a history do not
/// change.
pub(crate) const INTERRUPTED: &str = "(The call was interrupted: it has no result.)";

/// What is sent as the result of this call, which has none.
pub(crate) fn missing_result(call: Option<&Item<'_>>) -> &'static str {
    match call.map(|call| call.kind) {
        Some(ItemKind::McpApprovalRequest) => {
            "(The user has not decided on this call, so it was not run.)"
        }
        _ => INTERRUPTED,
    }
}

/// Writes the inside of the string that a result becomes: its text or the plan's
/// replacement, and a line for media that the model does not accept. Returns
/// whether the output has media that must be sent in another message.
pub(crate) fn push_output(
    out: &mut Vec<u8>,
    item: &Item<'_>,
    (index, shown): (usize, Option<&str>),
    accepted: AcceptedMedia<'_>,
    notes: &mut Notes,
) -> Result<bool, Fault> {
    if item.kind == ItemKind::ToolSearchOutput {
        let names = item
            .tools()
            .map(crate::tools::wire_names)
            .unwrap_or_default();
        let text = if names.is_empty() {
            "No tool was found.".to_owned()
        } else {
            format!("These tools can be called now: {}", names.join(", "))
        };
        Text::from(text).push_escaped(out);
        return Ok(false);
    }
    if let Some(text) = shown {
        Text::from(text).push_escaped(out);
    }
    let Some(output) = item.output() else {
        if shown.is_some() {
            return Ok(false);
        }
        let status = item.status().unwrap_or_else(|| "completed".into());
        Text::from(status.as_ref()).push_escaped(out);
        return Ok(false);
    };
    let is_text = output.get().starts_with('"');
    if shown.is_some() && (is_text || !output_has_parts(item.kind)) {
        return Ok(false);
    }
    if !is_text && !output_has_parts(item.kind) {
        json::escape_json_text(out, output.get());
        return Ok(false);
    }
    let content = MessageContent::read_output(output, index)?;
    // A shortened text says nothing of the images beside it.
    for text in content.image_texts(accepted).filter(|_| shown.is_some()) {
        out.extend_from_slice(b"\\n");
        Text::Owned(text).push_escaped(out);
    }
    let content = content.replace_unsupported(accepted, notes);
    if shown.is_none() {
        content.push_text(out, "\\n");
    }
    Ok(content.has_media())
}

/// Whether the output of this kind of item may be a list of content parts. In other
/// outputs a list is plain JSON.
pub(crate) fn output_has_parts(kind: ItemKind) -> bool {
    matches!(
        kind,
        ItemKind::FunctionCallOutput
            | ItemKind::CustomToolCallOutput
            | ItemKind::McpCall
            | ItemKind::ApprovedMcpCall
    )
}
