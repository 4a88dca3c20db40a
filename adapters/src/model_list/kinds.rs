//! Which models answer prompts: by what a list says of them, and by their ids.

use serde_json::Value;

/// The fields in which lists tell what a model is for, where it is asked, and what it takes and
/// gives: a text, an object with a `name`, or a list of these, of which one has to be about
/// prompts.
const KIND_FIELDS: [&str; 23] = [
    "/type",
    "/model_type",
    "/sub_type",
    "/task",
    "/tasks",
    "/pipeline_tag",
    "/kind",
    "/category",
    "/mode",
    "/modality",
    "/architecture/modality",
    "/capabilities",
    "/endpoints",
    "/supported_endpoints",
    "/supported_endpoint_types",
    "/supportedGenerationMethods",
    "/modalities",
    "/modalities/input",
    "/modalities/output",
    "/input_modalities",
    "/output_modalities",
    "/architecture/input_modalities",
    "/architecture/output_modalities",
];

/// Words in these fields of models that answer no prompt.
const OTHER_KINDS: [&str; 48] = [
    "3d",
    "asr",
    "asyncbatchembedcontent",
    "audio",
    "bidigeneratecontent",
    "classification",
    "classifier",
    "classify",
    "counttexttokens",
    "counttokens",
    "detection",
    "diffusion",
    "edits",
    "embed",
    "embedcontent",
    "embedding",
    "embeddings",
    "extraction",
    "image",
    "images",
    "mask",
    "moderation",
    "moderations",
    "music",
    "ocr",
    "predict",
    "predictlongrunning",
    "ranking",
    "realtime",
    "rerank",
    "reranker",
    "reranking",
    "reward",
    "score",
    "segmentation",
    "similarity",
    "speech",
    "stt",
    "transcribe",
    "transcription",
    "transcriptions",
    "translations",
    "tts",
    "upscale",
    "upscaling",
    "video",
    "videos",
    "voice",
];

/// Words that tell of prompts, whatever stands beside them.
const PROMPT_KINDS: [&str; 8] = [
    "chat",
    "completion",
    "completions",
    "conversational",
    "language",
    "llm",
    "responses",
    "vlm",
];

/// The words in the ids of models that answer no prompt, at providers whose lists do not say so.
const OTHER_WORDS: [&str; 49] = [
    "asr",
    "audio",
    "babbage",
    "bark",
    "bge",
    "clip",
    "cogvideox",
    "cogview",
    "colbert",
    "cosyvoice",
    "dall",
    "davinci",
    "diffusion",
    "e5",
    "flux",
    "gte",
    "guard",
    "hailuo",
    "i2v",
    "ideogram",
    "image",
    "imagen",
    "kling",
    "kokoro",
    "livetranslate",
    "lyria",
    "minilm",
    "musicgen",
    "ocr",
    "paraformer",
    "parakeet",
    "realtime",
    "recraft",
    "sdxl",
    "seedance",
    "seedream",
    "sensevoice",
    "siglip",
    "sora",
    "speech",
    "stt",
    "t2i",
    "t2v",
    "transcription",
    "tts",
    "upscaler",
    "veo",
    "video",
    "voice",
];

/// The beginnings of such words: `embedding`, `reranker`, `transcribe`.
const OTHER_BEGINNINGS: [&str; 5] = ["embed", "moderation", "rerank", "transcrib", "whisper"];

/// Whether a model may answer prompts, judged by its id.
pub fn may_answer_prompts(id: &str) -> bool {
    let id = id.to_ascii_lowercase();
    let begins = |word: &str| OTHER_BEGINNINGS.iter().any(|other| word.starts_with(other));
    !words(&id).any(|word| OTHER_WORDS.contains(&word) || begins(word))
}

/// Whether an entry of a list says that its model answers no prompt.
pub(super) fn answers_no_prompt(entry: &Value) -> bool {
    let flags = ["/capabilities/completion_chat", "/capabilities/chat"];
    let is_denied = |at: &&str| entry.pointer(at) == Some(&Value::Bool(false));
    let is_other = |value: &Value| {
        let text = value.as_str().or_else(|| value.get("name")?.as_str());
        text.is_some_and(is_other_kind)
    };
    let is_about_other = |at: &&str| match entry.pointer(at) {
        Some(Value::Array(values)) => !values.is_empty() && values.iter().all(is_other),
        field => field.is_some_and(is_other),
    };
    flags.iter().any(is_denied) || KIND_FIELDS.iter().any(is_about_other)
}

/// Whether a kind is about something else than prompts, such as `text-to-speech` or `image->text`.
fn is_other_kind(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    let plain = kind.replace("->", "-to-").replace('_', "-");
    match plain.split_once("-to-") {
        Some(sides) => {
            let is_text = |side: &str| words(side).any(|word| ["text", "any"].contains(&word));
            !is_text(sides.0) || !is_text(sides.1)
        }
        None => {
            words(&plain).any(|word| OTHER_KINDS.contains(&word))
                && !words(&plain).any(|word| PROMPT_KINDS.contains(&word))
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric())
}
