//! `[workflows]`.
use super::*;

const FOLDER: &str = "[workflows]\nfolder = \"workflows\"";

/// A workflow of one node.
pub(super) const WORKFLOW: &str =
    "description = \"x\"\n[[nodes]]\nid = \"a\"\nkind = \"write\"\nprompt = \"p\"";

/// The ids of the workflows of a configuration.
fn ids(config: &Config) -> Vec<&str> {
    config.workflows.iter().map(|(id, _)| id).collect()
}

/// Promise: The workflows of a folder are there beside those of the program, which they may
/// replace.
#[test]
fn the_workflows_of_a_folder_are_read() {
    let inputs = TestInputs::new(FOLDER);
    inputs.write("here/workflows/wf_one.toml", WORKFLOW);
    inputs.write("here/workflows/.wf_one.toml.swp", "hidden");
    let before = inputs.config();
    assert_eq!(ids(&before), ["wf_deep_research", "wf_one"]);
    inputs.write("here/workflows/wf_deep_research.toml", WORKFLOW);
    let after = inputs.config();
    let replaced = after.workflows.get("wf_deep_research").unwrap();
    assert_eq!(replaced.nodes.len(), 1);
    assert_ne!(before.digest, after.digest);
    let none = TestInputs::new("").config();
    assert_eq!(ids(&none), ["wf_deep_research"]);
}

#[test]
fn what_is_no_workflow_is_told() {
    for (path, text, says) in [
        ("one.toml", WORKFLOW, "one.toml is not a workflow"),
        ("wf_.toml", WORKFLOW, "wf_.toml is not a workflow"),
        ("wf_a b.toml", WORKFLOW, "is not a workflow"),
        ("wf_a.toml/x", WORKFLOW, "wf_a.toml is not a workflow"),
        ("wf_a.toml", "nodes = ", "workflows/wf_a.toml:1: "),
        ("wf_a.toml", "description = \"x\"", "missing field `nodes`"),
        ("wf_a.toml", &" ".repeat(262_145), "at most 256 KiB"),
    ] {
        let inputs = TestInputs::new(FOLDER);
        inputs.write(&format!("here/workflows/{path}"), text);
        let why = inputs.error();
        assert!(why.contains(says), "{path}: {why}");
    }
    let why = TestInputs::new(FOLDER).error();
    assert!(why.contains("proxy-config.toml:2: cannot read "), "{why}");
}
