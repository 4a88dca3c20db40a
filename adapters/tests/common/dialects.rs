//! The dialects of the embedded providers.

use std::sync::LazyLock;

use registry::{ChatQuirks, Dialect};

/// Every dialect of a model of an embedded provider, and combinations of quirks that no embedded
/// provider has.
pub static DIALECTS: LazyLock<Vec<Dialect>> = LazyLock::new(|| {
    let mut dialects: Vec<Dialect> = [
        "",
        "message_limit = 4\nreasoning_replay = 'think_tags'\ncall_ids = 'word'",
        "system_role = 'user'\nanswer_after_tool = true\nmerge_user = true\ntool_names = true",
        "reasoning_replay = 'reasoning_details'\ncall_extra = 'kept'\ncache_control = true",
    ]
    .map(|quirks| Dialect {
        quirks: toml::from_str::<ChatQuirks>(quirks).unwrap().into(),
        ..Dialect::default()
    })
    .to_vec();
    for id in registry::builtin::ids() {
        let spec = registry::build(id, toml::Table::new()).unwrap();
        let provider = spec.to_provider(id);
        let families = provider.families.iter().map(|(_, dialect)| dialect);
        for dialect in families.chain([&provider.dialect]) {
            if !dialects.contains(dialect) {
                dialects.push(Dialect::clone(dialect));
            }
        }
    }
    dialects
});
