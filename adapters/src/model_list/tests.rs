use registry::WindowSource;

use super::*;

fn ids(models: &[Model]) -> Vec<&str> {
    models.iter().map(|model| model.id.as_str()).collect()
}

fn models_of(body: &str) -> Vec<Model> {
    listed_models(body.as_bytes()).unwrap().models
}

#[test]
fn a_list_is_read_with_and_without_an_object_around_it() {
    for body in [
        r#"{"object":"list","data":[{"id":"a","object":"model"},{"id":"b"}]}"#,
        r#"{"models":[{"id":"a"},{"id":"b"}]}"#,
        r#"[{"id":"a","type":"chat"},{"id":"b","type":"language"}]"#,
    ] {
        let models = models_of(body);
        assert_eq!(ids(&models), ["a", "b"], "{body}");
        // Nothing is withheld from a model of which only the name is known.
        assert!(models.iter().all(|model| model.images && model.unlisted));
        assert!(models.iter().all(|model| model.window.is_none()));
    }
    // As Gemini lists them.
    let models = models_of(r#"{"data":[{"id":"models/a","input_modalities":["text"]}]}"#);
    assert_eq!((ids(&models), models[0].audio), (vec!["a"], false));
    assert!(may_answer_prompts("gemini-4-pro") && !may_answer_prompts("gemini-4-pro-TTS"));
    for body in [
        "",
        "<html>",
        "{}",
        "null",
        r#"{"data":null}"#,
        r#"{"error":{"message":"no"}}"#,
    ] {
        assert_eq!(listed_models(body.as_bytes()), None, "{body}");
    }
    assert_eq!(
        listed_models(br#"{"data":[]}"#),
        Some(ListedModels::default())
    );
}

#[test]
fn a_window_is_read_under_each_of_its_names() {
    for (entry, window) in [
        (r#"{"id":"m","max_model_len":32768}"#, Some(32_768)),
        (r#"{"id":"m","context_length":200000}"#, Some(200_000)),
        (r#"{"id":"m","context_window":131072}"#, Some(131_072)),
        (r#"{"id":"m","max_context_length":262144}"#, Some(262_144)),
        (
            r#"{"id":"m","meta":{"n_ctx":2048,"n_ctx_train":8192}}"#,
            Some(2048),
        ),
        // The limit of the model says what the server gives at most.
        (r#"{"id":"m","meta":{"n_ctx_train":8192}}"#, Some(8192)),
        (r#"{"id":"m","meta":{"n_ctx_train":1048576}}"#, None),
        (
            r#"{"id":"m","state":"loaded","max_context_length":32768,"loaded_context_length":8192}"#,
            Some(8192),
        ),
        (
            r#"{"id":"m","state":"not-loaded","max_context_length":32768}"#,
            Some(32_768),
        ),
        (
            r#"{"id":"m","state":"not-loaded","max_context_length":262144}"#,
            None,
        ),
        (r#"{"id":"m","context_length":0}"#, None),
        (r#"{"id":"m","context_length":"8192"}"#, None),
        (r#"{"id":"m","context_length":-1}"#, None),
        (r#"{"id":"m","context_length":9007199254740993}"#, None),
    ] {
        let models = models_of(&format!("[{entry}]"));
        assert_eq!(models[0].window, window, "{entry}");
        let source = models[0].window().source;
        let told = window.is_some();
        assert_eq!(source == WindowSource::Reported, told, "{entry}");
    }
}

#[test]
fn what_else_a_list_tells_is_read() {
    let body = r#"[
        {"id":"a","architecture":{"input_modalities":["text","image"]},"top_provider":{"max_completion_tokens":8192}},
        {"id":"b","architecture":{"input_modalities":["text"]}},
        {"id":"c","type":"vlm"}, {"id":"d","type":"llm"},
        {"id":"e","capabilities":{"vision":false,"completion_chat":true}},
        {"id":"f","supports_image_in":true,"display_name":"F one"}
    ]"#;
    let models = models_of(body);
    let images: Vec<bool> = models.iter().map(|model| model.images).collect();
    assert_eq!(images, [true, false, true, false, false, true]);
    assert_eq!(models[0].max_output, Some(8192));
    assert_eq!(models[5].display_name(), "F one");
}

#[test]
fn models_that_answer_no_prompt_and_unusable_ids_are_left_out() {
    let long = "x".repeat(MAX_ID + 1);
    let body = format!(
        r#"{{"data":[{{"id":"good"}},{{"id":"e","type":"embeddings"}},{{"id":"r","type":"rerank"}},
        {{"id":"o","capabilities":{{"completion_chat":false}}}},{{"id":""}},{{"id":"a\nb"}},{{"id":" a"}},
        {{"id":7}},{{}},null,"text",{{"id":"{long}"}},{{"id":"last"}}]}}"#
    );
    assert_eq!(ids(&models_of(&body)), ["good", "last"]);
    assert_eq!(listed_models(body.as_bytes()).unwrap().others, 3);
}

/// Each says in its own way that its model answers no prompt.
#[test]
fn what_a_list_says_of_the_kind_of_a_model_counts() {
    for other in [
        r#""type":"image""#,
        r#""type":"text_embedding""#,
        r#""model_type":"speech-to-text""#,
        r#""mode":"audio_transcription""#,
        r#""task":"text-to-video""#,
        r#""task":{"name":"Automatic Speech Recognition"}"#,
        r#""pipeline_tag":"feature-extraction""#,
        r#""tasks":["rerank","embedding"]"#,
        r#""capabilities":["embedding"]"#,
        r#""capabilities":{"chat":false}"#,
        r#""output_modalities":["image"]"#,
        r#""modalities":{"input":["audio"],"output":["text"]}"#,
        r#""architecture":{"modality":"text->image"}"#,
        r#""architecture":{"input_modalities":["text"],"output_modalities":["embeddings"]}"#,
        r#""endpoints":["/v1/audio/speech"]"#,
        r#""supported_endpoint_types":["image-generation"]"#,
        r#""supportedGenerationMethods":["embedContent","countTextTokens"]"#,
    ] {
        let body = format!(r#"[{{"id":"m",{other}}}]"#);
        let list = listed_models(body.as_bytes()).unwrap();
        assert_eq!((list.models.len(), list.others), (0, 1), "{other}");
    }
    for prompt in [
        r#""type":"chat""#,
        r#""type":"model","task":"text-generation""#,
        r#""pipeline_tag":"image-text-to-text""#,
        r#""pipeline_tag":"any-to-any""#,
        r#""mode":"completion""#,
        r#""tasks":["chat","embedding"]"#,
        r#""capabilities":["vision","tools"]"#,
        r#""architecture":{"modality":"text+image->text","output_modalities":["text","image"]}"#,
        r#""modalities":["text","audio"]"#,
        r#""endpoints":["/v1/chat/completions","/v1/images/generations"]"#,
        r#""supportedGenerationMethods":["generateContent","countTokens"]"#,
        r#""type":null,"endpoints":[]"#,
    ] {
        assert_eq!(
            models_of(&format!(r#"[{{"id":"m",{prompt}}}]"#)).len(),
            1,
            "{prompt}"
        );
    }
    for (id, answers) in [
        ("maker/text-embedding-9", false),
        ("bge-m3", false),
        ("gpt-4o-transcribe", false),
        ("distil-whisper-large", false),
        ("wan2.1-t2v-14b", false),
        ("jina-reranker-v2", false),
        ("deepseek-ocr", false),
        ("gpt-oss-safeguard-20b", true),
        ("veolia-chat", true),
        ("qwen3-vl", true),
    ] {
        assert_eq!(may_answer_prompts(id), answers, "{id}");
    }
}

#[test]
fn each_form_of_a_next_page_is_read() {
    let parameter = |name, value: &str| Some(NextPage::Parameters(vec![(name, value.to_owned())]));
    let link = |link: &str| Some(NextPage::Link(link.to_owned()));
    for (page, next) in [
        (
            r#""object":"list","has_more":true,"last_id":"a""#,
            parameter("after", "a"),
        ),
        (
            r#""object":"list","has_more":true"#,
            parameter("after", "z"),
        ),
        (r#""has_more":false,"last_id":"a""#, None),
        (r#""nextPageToken":"t""#, parameter("pageToken", "t")),
        (r#""nextPageToken":"""#, None),
        (r#""next_page":2"#, parameter("page", "2")),
        (r#""next_page":"t""#, parameter("page", "t")),
        (
            r#""next_page":"/v1/models?page=2""#,
            link("/v1/models?page=2"),
        ),
        (
            r#""next":"https://lab.example/v1/models?p=2""#,
            link("https://lab.example/v1/models?p=2"),
        ),
        (r#""next":null"#, None),
        (r#""links":{"next":"?offset=2"}"#, link("?offset=2")),
        (r#""_links":{"next":{"href":"/x?y"}}"#, link("/x?y")),
        (r#""meta":{"next_cursor":"c"}"#, parameter("cursor", "c")),
        (
            r#""pagination":{"page":1,"total_pages":2}"#,
            parameter("page", "2"),
        ),
        (r#""page":2,"total_pages":2"#, None),
        (r#""object":"list""#, None),
    ] {
        let body = format!(r#"{{"data":[{{"id":"a"}},{{"id":"z"}}],{page}}}"#);
        assert_eq!(next_page(body.as_bytes()), next, "{page}");
    }
    // As Anthropic has it, whose object has no type.
    let body = br#"{"data":[],"has_more":true,"last_id":"a"}"#;
    let pairs = ["after", "after_id"].map(|name| (name, "a".to_owned()));
    assert_eq!(next_page(body), Some(NextPage::Parameters(pairs.to_vec())));
    assert_eq!(next_page(br#"[{"id":"a","next":"b"}]"#), None);
    let header = r#"</m?p=1>; rel="prev", </m?p=3>; rel="next""#;
    assert_eq!(linked_page(header), link("/m?p=3"));
    assert_eq!(linked_page("</m>; rel=last"), None);
}

#[test]
fn a_list_of_any_length_is_read_to_its_limit() {
    let entries: Vec<String> = (0..MAX_MODELS + 10)
        .map(|n| format!(r#"{{"id":"m{n}"}}"#))
        .collect();
    let body = format!("[{}]", entries.join(","));
    assert_eq!(models_of(&body).len(), MAX_MODELS);
}

#[test]
fn ollama_tells_what_it_gives_a_model() {
    let tags = br#"{"models":[{"name":"qwen3:8b","model":"qwen3:8b","digest":"ab12","size":1,"details":{}},{"name":""}]}"#;
    assert_eq!(
        ollama_tags(tags).unwrap(),
        [OllamaTag {
            name: "qwen3:8b".to_owned(),
            digest: "ab12".to_owned()
        }]
    );
    assert_eq!(ollama_tags(b"404 page not found"), None);
    let ps = br#"{"models":[{"name":"qwen3:8b","context_length":16384},{"name":"old"}]}"#;
    assert_eq!(loaded_contexts(ps), [("qwen3:8b".to_owned(), 16_384)]);
    let show = |parameters: &str, limit: u64, capabilities: &str| {
        let body = format!(
            r#"{{"parameters":{parameters:?},"model_info":{{"general.architecture":"qwen3","qwen3.context_length":{limit},"qwen3.rope.scaling.original_context_length":7}},"capabilities":{capabilities}}}"#
        );
        ollama_model(body.as_bytes())
    };
    let chat = r#"["completion","tools","thinking"]"#;
    let plain = show("stop \"x\"", 40_960, chat);
    // Loaded, then asked for by its parameters, then limited.
    assert_eq!(plain.to_model("m", Some(4096)).unwrap().window, Some(4096));
    assert_eq!(plain.to_model("m", None).unwrap().window, Some(40_960));
    let asked = show(
        "temperature 1\nnum_ctx                        8192",
        40_960,
        chat,
    );
    assert_eq!(asked.to_model("m", None).unwrap().window, Some(8192));
    let large = show("", 262_144, chat);
    assert_eq!(large.to_model("m", None).unwrap().window, None);
    assert!(!plain.to_model("m", None).unwrap().images);
    let sees = show("", 40_960, r#"["completion","vision"]"#);
    assert!(sees.to_model("m", None).unwrap().images);
    assert_eq!(show("", 512, r#"["embedding"]"#).to_model("m", None), None);
    // Of an older server nothing is known.
    assert!(ollama_model(b"{}").to_model("m", None).unwrap().images);
}

#[test]
fn llama_cpp_and_sglang_tell_their_context() {
    let body = br#"{"default_generation_settings":{"n_ctx":2048},"total_slots":2,"modalities":{"vision":false}}"#;
    assert_eq!(props(body), (Some(2048), Some(false)));
    assert_eq!(props(b"[]"), (None, None));
    assert_eq!(
        server_info(
            br#"{"context_length":null,"max_total_num_tokens":90000,"max_req_input_len":32762}"#
        ),
        Some(32_762)
    );
    assert_eq!(
        server_info(br#"{"context_length":65536,"max_req_input_len":32762}"#),
        Some(65_536)
    );
    assert_eq!(server_info(b"no"), None);
}
