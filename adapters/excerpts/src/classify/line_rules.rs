//! The rules by which a line votes, as data.

use std::sync::LazyLock;

use regex::bytes::{RegexSet, RegexSetBuilder};

/// What a line looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineLook {
    /// It begins with a time or a log level.
    Log,
    /// A command printed it.
    Command,
    /// A line of a source file.
    Code,
    /// `key = value`, `key: value`, `[section]`, `- item`.
    Setting,
    Prose,
    Heading,
    /// It begins with a URL.
    Url,
    /// A field of a search result.
    Field,
    /// It begins with an HTML tag.
    Tag,
    /// Base64 or a hexadecimal dump.
    Encoded,
    DiffHeader,
    DiffChange,
}

/// Where a rule does not count although its pattern matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleException {
    Nowhere,
    /// Above the first header of a diff.
    AboveDiff,
    /// Where all letters are small, or all are capitals.
    OneCase,
    /// In a line with many words that ends like a sentence or a part of one.
    ManyWords,
    /// In a long sentence.
    Sentence,
}

/// The pattern of a rule, what the lines that match it look like, and its exception. If several
/// rules match, the first one counts. `<…>` in a pattern is replaced by the words of [`WORDS`].
pub(super) type LineRule = (&'static str, LineLook, RuleException);

pub(super) const RULES: [LineRule; 28] = {
    use LineLook::{
        Code, Command, DiffChange, DiffHeader, Encoded, Field, Heading, Log, Setting, Tag, Url,
    };
    use RuleException::{AboveDiff, ManyWords, Nowhere, OneCase, Sentence};
    [
        (r"^<[A-Za-z/!]", Tag, Nowhere),
        (r"^(?:<|- |\* |\()?https?://", Url, Nowhere),
        (r"^(?:\*\*|- )?<result field>[:*]", Field, Nowhere),
        (r"^(?:diff --git |@@ -|\+\+\+ |--- a/)", DiffHeader, Nowhere),
        (r"^\*\*\* Update File: ", DiffHeader, Nowhere),
        (r"^[+-]", DiffChange, AboveDiff),
        // A time, with or without a bracket. Other numbers are not taken for times, such as the
        // seconds since boot that `dmesg` writes.
        (r"^\[?[0-9]{4}[-/][0-9]{2}", Log, Nowhere),
        (r"^\[?[0-9]{1,2}[:/][0-9]{2}[: /.]", Log, Nowhere),
        (r"^\[?<month> [ 0-9][0-9]", Log, Nowhere),
        (r"^\[?<level>[\] :\[\t]", Log, Nowhere),
        // A hexadecimal dump with its addresses, and one without.
        (r"^[0-9A-Fa-f]{8}[: ] .{38}", Encoded, Nowhere),
        (r"^[0-9A-Fa-f]{48}", Encoded, Nowhere),
        (r"^[0-9A-Za-z+/=]{48}", Encoded, OneCase),
        // A position such as `path:12:` or `path(12,`, as compilers and searches write it.
        (r"^<path>:[0-9]+(?:[-: ]|$)", Command, Nowhere),
        (r"^<path>\([0-9]+[,)]", Command, Nowhere),
        // A file with its permissions, as `ls -l` writes it.
        (r"^[dl-](?:r..|.r.|..r)[rwxst-]{6}", Command, Nowhere),
        (r"^//", Code, Nowhere),
        // Only a path.
        (
            r#"^[^ \t"'=({;<>,*]*[/\\][^ \t"'=({;<>,*]*$"#,
            Command,
            Nowhere,
        ),
        (r"^\[.*\]$", Setting, Nowhere),
        (
            r"^(?:[})\]@]|/\*|\*/|\* |#[\[!]|#include|#define)",
            Code,
            Nowhere,
        ),
        (r"[{};(\[]$", Code, Nowhere),
        (r"^<code>(?:[ (:.<]|$)", Code, ManyWords),
        (r"^<printed>(?:[^A-Za-z=(._]|$)", Command, Sentence),
        // Drawn by a test runner, a shell or a progress bar.
        (
            r#"^(?:=== |--- |\$ |-->|\.\.\.|==|%|✓|✗|✔|✘|├|│|└|File ")"#,
            Command,
            Nowhere,
        ),
        (r"(?: \.\.\. ok|FAILED|PASSED)$", Command, Nowhere),
        (r"^#", Heading, Nowhere),
        (r"^- .*[^.]$", Setting, Nowhere),
        (
            r#"^["A-Za-z]["0-9A-Za-z_.-]{0,47}(?: = |=|: [^ ]|:$)"#,
            Setting,
            Nowhere,
        ),
    ]
};

/// The parts that patterns have in common, by name: the words between blanks, or one pattern.
const WORDS: [(&str, &str); 6] = [
    ("<result field>", RESULT_FIELDS),
    ("<month>", "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"),
    (
        "<level>",
        "ERROR WARN WARNING INFO DEBUG TRACE FATAL error info warn",
    ),
    (
        "<path>",
        r"[A-Za-z]:[\\/][^:\x20(]* [^:\x20(]*[./\\][^:\x20(]*",
    ),
    ("<code>", CODE),
    ("<printed>", PRINTED),
];

/// The names of fields in search results.
const RESULT_FIELDS: &str = "\
    Title title URL Url url Link Source Snippet snippet Published Summary Description Content \
    Domain Excerpt Result";

/// The words with which lines of source code in any common language begin.
const CODE: &str = "\
    fn pub use let impl struct enum trait mod match unsafe async await def class import elif \
    except lambda yield raise with pass const var function export interface namespace public \
    private protected static void int char return if else for while switch case break continue \
    try catch throw finally package func type defer select template typedef extern using final \
    override abstract val fun data object end module require local then fi esac done do echo set \
    SELECT INSERT CREATE FROM WHERE UPDATE ALTER DROP JOIN RUN COPY ENV WORKDIR self this super \
    bool double float unsigned constexpr auto from new delete assert";

/// The words with which lines begin that compilers, package managers, test runners and version
/// control print.
const PRINTED: &str = "\
    ERROR WARN WARNING INFO DEBUG TRACE FATAL NOTICE error warning note info fatal Error Warning \
    Compiling Finished Running Downloading Downloaded Installing Installed Checking Building \
    Linking Fetching Updating Adding Locking Unpacking Preparing Reading Get Hit Selecting \
    Processing Collecting Using Requirement Successfully Successful Removing Generating Scanning \
    Traceback Caused PASS FAIL PASSED FAILED ok not test running npm added Step make gcc cc \
    clang ninja CMake total commit Author Date goroutine at remote hint modified deleted renamed \
    Untracked Changes rustc thread stack failures Tests Ran collected Test BUILD Started \
    Starting Stopping Loaded Loading Caches Task Receiving Resolving Cloning Writing";

/// The patterns of [`RULES`], in the same order.
#[expect(
    clippy::expect_used,
    reason = "the patterns are constant, and a test builds them"
)]
pub(super) static PATTERNS: LazyLock<RegexSet> = LazyLock::new(|| {
    let pattern = |(pattern, ..): &LineRule| {
        WORDS
            .iter()
            .fold((*pattern).to_owned(), |pattern, (name, words)| {
                pattern.replace(name, &format!("(?:{})", words.replace(' ', "|")))
            })
    };
    RegexSetBuilder::new(RULES.iter().map(pattern))
        .unicode(false)
        .build()
        .expect("a few patterns")
});
