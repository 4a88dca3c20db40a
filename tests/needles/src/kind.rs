//! The kinds of generated outputs.

use std::str::FromStr;

use crate::{
    builds::{BuildLog, StackDump, TestLog},
    code::{Diff, SourceCode},
    foreign_logs::{ChineseLog, LocalizedLog},
    logs::{Journal, ServerLog},
    more_formats,
    pages::{HtmlPage, Markdown, Prose, SearchResults},
    records::{self, Records},
    rows::{RowForm, Rows},
    scene::{Needle, NeedleSort, Scene},
    scripts::{Hits, Minified},
    tables::{Listing, Table},
    traces::{KeyList, TraceLog},
    trees::{KeyValues, LockFile, Manifest, NestedJson},
};

/// Makes the parts of an output.
pub(crate) trait Generator {
    /// The text above the first unit.
    fn head(&mut self, _: &mut Scene) -> String {
        String::new()
    }

    /// One line, row, statement or block. `line` counts them.
    fn unit(&mut self, scene: &mut Scene, line: usize) -> String;

    /// The text between two units.
    fn between(&self) -> &'static str {
        "\n"
    }

    /// The text below the last unit.
    fn tail(&mut self, _: &mut Scene) -> String {
        "\n".into()
    }

    /// A unit that tells something which no other one does.
    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, line: usize) -> Needle;

    /// The command that prints such an output.
    fn command(&mut self, scene: &mut Scene) -> String;
}

/// A kind of generated output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NeedleKind {
    Build,
    Tests,
    ServerLog,
    ChineseLog,
    LocalizedLog,
    Journal,
    Csv,
    JsonArray,
    JsonLines,
    NestedJson,
    Sql,
    Source,
    Diff,
    Grep,
    Minified,
    Html,
    Markdown,
    Prose,
    SearchResults,
    StackDump,
    Table,
    Listing,
    LockFile,
    Yaml,
    KeyValues,
    Xml,
    JUnit,
    PropertyList,
    Packages,
    YamlList,
    Ini,
    Ldif,
    Terraform,
    Nginx,
    GraphQl,
    LongCells,
    TraceLog,
    KernelSettings,
    Environment,
    Metrics,
    Installed,
    Pom,
    Calendar,
    Commits,
    Hcl,
    Units,
    ExpandedRows,
    Bibliography,
    TextProto,
    Tap,
    Logfmt,
    SExpressions,
    Sections,
    Graph,
    Turtle,
    Scan,
    Colons,
}

impl NeedleKind {
    pub(crate) const ALL: [Self; 57] = [
        Self::Build,
        Self::Tests,
        Self::ServerLog,
        Self::ChineseLog,
        Self::LocalizedLog,
        Self::Journal,
        Self::Csv,
        Self::JsonArray,
        Self::JsonLines,
        Self::NestedJson,
        Self::Sql,
        Self::Source,
        Self::Diff,
        Self::Grep,
        Self::Minified,
        Self::Html,
        Self::Markdown,
        Self::Prose,
        Self::SearchResults,
        Self::StackDump,
        Self::Table,
        Self::Listing,
        Self::LockFile,
        Self::Yaml,
        Self::KeyValues,
        Self::Xml,
        Self::JUnit,
        Self::PropertyList,
        Self::Packages,
        Self::YamlList,
        Self::Ini,
        Self::Ldif,
        Self::Terraform,
        Self::Nginx,
        Self::GraphQl,
        Self::LongCells,
        Self::TraceLog,
        Self::KernelSettings,
        Self::Environment,
        Self::Metrics,
        Self::Installed,
        Self::Pom,
        Self::Calendar,
        Self::Commits,
        Self::Hcl,
        Self::Units,
        Self::ExpandedRows,
        Self::Bibliography,
        Self::TextProto,
        Self::Tap,
        Self::Logfmt,
        Self::SExpressions,
        Self::Sections,
        Self::Graph,
        Self::Turtle,
        Self::Scan,
        Self::Colons,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Tests => "tests",
            Self::ServerLog => "server-log",
            Self::ChineseLog => "chinese-log",
            Self::LocalizedLog => "localized-log",
            Self::Journal => "journal",
            Self::Csv => "csv",
            Self::JsonArray => "json-array",
            Self::JsonLines => "json-lines",
            Self::NestedJson => "nested-json",
            Self::Sql => "sql",
            Self::Source => "source",
            Self::Diff => "diff",
            Self::Grep => "grep",
            Self::Minified => "minified",
            Self::Html => "html",
            Self::Markdown => "markdown",
            Self::Prose => "prose",
            Self::SearchResults => "search-results",
            Self::StackDump => "stack-dump",
            Self::Table => "table",
            Self::Listing => "listing",
            Self::LockFile => "lock-file",
            Self::Yaml => "yaml",
            Self::KeyValues => "key-values",
            Self::Xml => "xml",
            Self::JUnit => "junit",
            Self::PropertyList => "plist",
            Self::Packages => "packages",
            Self::YamlList => "yaml-list",
            Self::Ini => "ini",
            Self::Ldif => "ldif",
            Self::Terraform => "terraform",
            Self::Nginx => "nginx",
            Self::GraphQl => "graphql",
            Self::LongCells => "long-cells",
            Self::TraceLog => "trace-log",
            Self::KernelSettings => "kernel-settings",
            Self::Environment => "environment",
            Self::Metrics => "metrics",
            Self::Installed => "installed",
            Self::Pom => "pom",
            Self::Calendar => "calendar",
            Self::Commits => "commits",
            Self::Hcl => "hcl",
            Self::Units => "units",
            Self::ExpandedRows => "expanded-rows",
            Self::Bibliography => "bibliography",
            Self::TextProto => "text-proto",
            Self::Tap => "tap",
            Self::Logfmt => "logfmt",
            Self::SExpressions => "s-expressions",
            Self::Sections => "sections",
            Self::Graph => "graph",
            Self::Turtle => "turtle",
            Self::Scan => "scan",
            Self::Colons => "colons",
        }
    }

    /// What a user asks who does not know what is in the output.
    pub(crate) fn question(self) -> &'static str {
        match self {
            Self::Build => "Build the workspace and tell me how it went.",
            Self::Tests | Self::JUnit | Self::Tap => "Run the tests and tell me how they went.",
            Self::ServerLog
            | Self::ChineseLog
            | Self::LocalizedLog
            | Self::Journal
            | Self::TraceLog
            | Self::Logfmt => "Have a look at the log of today.",
            Self::Csv | Self::JsonArray | Self::JsonLines | Self::Sql => {
                "Look through the sales before we close the month."
            }
            Self::NestedJson
            | Self::Yaml
            | Self::Xml
            | Self::PropertyList
            | Self::YamlList
            | Self::Ini
            | Self::Nginx
            | Self::Terraform => "Is our deployment as it should be?",
            Self::Source | Self::GraphQl => "Review this file, please.",
            Self::Diff => "Review my branch, please.",
            Self::Grep => "Where is this called?",
            Self::Minified => "What does this script do?",
            Self::Html | Self::Markdown => "Read the manual, then go on with the setup.",
            Self::Prose => "Summarize the report.",
            Self::SearchResults => "Find out what is known on this.",
            Self::StackDump => "The service is slow. What are its threads doing?",
            Self::Table => "What is running at the moment?",
            Self::Listing => "What lies in this folder?",
            Self::LockFile
            | Self::Packages
            | Self::Installed
            | Self::Pom
            | Self::Bibliography
            | Self::Graph => "Which packages do we use?",
            Self::KeyValues | Self::KernelSettings | Self::Environment => {
                "Explain the settings of this machine."
            }
            Self::Metrics | Self::Units => "How is the service doing?",
            Self::Calendar | Self::Commits => "What happens this week?",
            Self::Hcl | Self::ExpandedRows | Self::TextProto | Self::SExpressions | Self::Scan => {
                "Is our cluster as it should be?"
            }
            Self::Ldif | Self::LongCells | Self::Sections | Self::Turtle | Self::Colons => {
                "Who has an account here?"
            }
        }
    }

    pub(crate) fn generator(self, scene: &mut Scene) -> Box<dyn Generator> {
        match self {
            Self::Build => Box::new(BuildLog::new(scene)),
            Self::Tests => Box::new(TestLog::new(scene)),
            Self::ServerLog => Box::new(ServerLog),
            Self::ChineseLog => Box::new(ChineseLog),
            Self::LocalizedLog => Box::new(LocalizedLog::new(scene)),
            Self::Journal => Box::new(Journal),
            Self::Csv => Box::new(Rows::new(RowForm::Csv)),
            Self::JsonArray => Box::new(Rows::array(scene)),
            Self::JsonLines => Box::new(Rows::new(RowForm::Lines)),
            Self::NestedJson => Box::new(NestedJson),
            Self::Sql => Box::new(Rows::new(RowForm::Sql)),
            Self::Source => Box::new(SourceCode::new(scene)),
            Self::Diff => Box::new(Diff::new(scene)),
            Self::Grep => Box::new(Hits::new(scene)),
            Self::Minified => Box::new(Minified),
            Self::Html => Box::new(HtmlPage::new(scene)),
            Self::Markdown => Box::new(Markdown),
            Self::Prose => Box::new(Prose),
            Self::SearchResults => Box::new(SearchResults),
            Self::StackDump => Box::new(StackDump),
            Self::Table => Box::new(Table::new(scene)),
            Self::Listing => Box::new(Listing),
            Self::LockFile => Box::new(LockFile::new(scene)),
            Self::Yaml => Box::new(Manifest),
            Self::KeyValues => Box::new(KeyValues),
            Self::Xml => Box::new(Records::new(scene, &records::XML)),
            Self::JUnit => Box::new(Records::new(scene, &records::JUNIT)),
            Self::PropertyList => Box::new(Records::new(scene, &records::PLIST)),
            Self::Packages => Box::new(Records::new(scene, &records::PACKAGES)),
            Self::YamlList => Box::new(Records::new(scene, &records::YAML_LIST)),
            Self::Ini => Box::new(Records::new(scene, &records::INI)),
            Self::Ldif => Box::new(Records::new(scene, &records::LDIF)),
            Self::Terraform => Box::new(Records::new(scene, &records::TERRAFORM)),
            Self::Nginx => Box::new(Records::new(scene, &records::NGINX)),
            Self::GraphQl => Box::new(Records::new(scene, &records::GRAPHQL)),
            Self::LongCells => Box::new(Records::new(scene, &records::LONG_CELLS)),
            Self::TraceLog => Box::new(TraceLog::new(scene)),
            Self::KernelSettings => Box::new(KeyList::Kernel),
            Self::Environment => Box::new(KeyList::Environment),
            Self::Metrics => Box::new(KeyList::Metrics),
            Self::Installed => Box::new(Records::new(scene, &more_formats::INSTALLED)),
            Self::Pom => Box::new(Records::new(scene, &more_formats::POM)),
            Self::Calendar => Box::new(Records::new(scene, &more_formats::CALENDAR)),
            Self::Commits => Box::new(Records::new(scene, &more_formats::COMMITS)),
            Self::Hcl => Box::new(Records::new(scene, &more_formats::HCL)),
            Self::Units => Box::new(Records::new(scene, &more_formats::UNITS)),
            Self::ExpandedRows => Box::new(Records::new(scene, &more_formats::EXPANDED_ROWS)),
            Self::Bibliography => Box::new(Records::new(scene, &more_formats::BIBLIOGRAPHY)),
            Self::TextProto => Box::new(Records::new(scene, &more_formats::TEXT_PROTO)),
            Self::Tap => Box::new(Records::new(scene, &more_formats::TAP)),
            Self::Logfmt => Box::new(Records::new(scene, &more_formats::LOGFMT)),
            Self::SExpressions => Box::new(Records::new(scene, &more_formats::S_EXPRESSIONS)),
            Self::Sections => Box::new(Records::new(scene, &more_formats::SECTIONS)),
            Self::Graph => Box::new(Records::new(scene, &more_formats::GRAPH)),
            Self::Turtle => Box::new(Records::new(scene, &more_formats::TURTLE)),
            Self::Scan => Box::new(Records::new(scene, &more_formats::SCAN)),
            Self::Colons => Box::new(Records::new(scene, &more_formats::COLONS)),
        }
    }
}

impl FromStr for NeedleKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let kind = Self::ALL.into_iter().find(|kind| kind.name() == name);
        kind.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("no such kind; there are {names}")
        })
    }
}
