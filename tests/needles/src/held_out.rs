//! Formats that were written to measure what each part of an excerpt earns.

use crate::records::{Format, Subject, layout};

/// Rows of a database, one below the other.
pub(crate) static EXPANDED_ROWS: Format = Format {
    command: "psql -x -c 'select * from services'",
    subject: Subject::Service,
    layouts: &[layout("", "\n", "\n", |record| {
        format!(
            "-[ RECORD ]-----+------------------\nname            | {}{}{}",
            record.name,
            record.each(|key, value| format!("\n{key:<15} | {value}")),
            record.noted(|note| format!("\nremark          | {note}"))
        )
    })],
};

/// A bibliography.
pub(crate) static BIBLIOGRAPHY: Format = Format {
    command: "cat library.bib",
    subject: Subject::Package,
    layouts: &[layout("", "\n\n", "\n", |record| {
        format!(
            "@misc{{{},\n  year = {{2026}}{}{}\n}}",
            record.name,
            record.each(|key, value| format!(",\n  {key} = {{{value}}}")),
            record.noted(|note| format!(",\n  annote = {{{note}}}"))
        )
    })],
};

/// Messages in the text form of protocol buffers.
pub(crate) static TEXT_PROTO: Format = Format {
    command: "cat jobs.textproto",
    subject: Subject::Service,
    layouts: &[layout("", "\n", "\n", |record| {
        format!(
            "job {{\n  id: \"{}\"{}\n  limits {{ cpu: 2 }}\n}}{}",
            record.name,
            record.each(|key, value| format!("\n  {key}: \"{value}\"")),
            record.noted(|note| format!("  # {note}"))
        )
    })],
};

/// The results of tests in the Test Anything Protocol.
pub(crate) static TAP: Format = Format {
    command: "prove -v t/",
    subject: Subject::Package,
    layouts: &[layout("TAP version 14\n", "\n", "\n1..n\n", |record| {
        format!(
            "ok - {}\n  ---{}{}\n  ...",
            record.name,
            record.each(|key, value| format!("\n  {key}: {value}")),
            record.noted(|note| format!("\n  message: {note}"))
        )
    })],
};

/// Log lines of keys and values.
pub(crate) static LOGFMT: Format = Format {
    command: "cat events.log",
    subject: Subject::Service,
    layouts: &[layout("", "\n", "\n", |record| {
        format!(
            "ts=2026-04-17T10:00:00Z unit={}{}{}",
            record.name,
            record.each(|key, value| format!(" {key}={value}")),
            record.noted(|note| format!(" msg=\"{note}\""))
        )
    })],
};

/// Settings as lists in parentheses.
pub(crate) static S_EXPRESSIONS: Format = Format {
    command: "cat services.scm",
    subject: Subject::Service,
    layouts: &[layout("(services\n", "\n", ")\n", |record| {
        format!(
            "  (service \"{}\"{}{})",
            record.name,
            record.each(|key, value| format!("\n    ({key} . \"{value}\")")),
            record.noted(|note| format!("\n    ; {note}\n   "))
        )
    })],
};

/// Sections between two marks.
pub(crate) static SECTIONS: Format = Format {
    command: "ffprobe -show_streams list.m3u",
    subject: Subject::Account,
    layouts: &[layout("", "\n", "\n", |record| {
        format!(
            "[STREAM]\ntag={}{}{}\n[/STREAM]",
            record.name,
            record.each(|key, value| format!("\n{key}={value}")),
            record.noted(|note| format!("\nTAG:comment={note}"))
        )
    })],
};

/// A graph.
pub(crate) static GRAPH: Format = Format {
    command: "cat deps.dot",
    subject: Subject::Package,
    layouts: &[layout("digraph deps {\n", "\n", "\n}\n", |record| {
        format!(
            "  \"{}\" [shape=box{}{}];",
            record.name,
            record.each(|key, value| format!(", {key}=\"{value}\"")),
            record.noted(|note| format!(", tooltip=\"{note}\""))
        )
    })],
};

/// Statements about subjects.
pub(crate) static TURTLE: Format = Format {
    command: "cat people.ttl",
    subject: Subject::Account,
    layouts: &[layout(
        "@prefix e: <http://example.org/> .\n\n",
        "\n\n",
        "\n",
        |record| {
            format!(
                "e:{} a e:Person{}{} .",
                record.name,
                record.each(|key, value| format!(" ;\n  e:{key} \"{value}\"")),
                record.noted(|note| format!(" ;\n  e:comment \"{note}\""))
            )
        },
    )],
};

/// Hosts that a scan has found.
pub(crate) static SCAN: Format = Format {
    command: "nmap -sV 10.0.0.0/16",
    subject: Subject::Service,
    layouts: &[layout("Starting the scan\n", "\n\n", "\n", |record| {
        format!(
            "Scan report for {}\nHost is up (0.0021s latency).\nPORT     STATE SERVICE\n22/tcp   open  ssh{}{}",
            record.name,
            record.each(|key, value| format!("\n|_ {key}: {value}")),
            record.noted(|note| format!("\n|_ banner: {note}"))
        )
    })],
};

/// Accounts in the layout of `passwd -S` and the like, with fields between colons.
pub(crate) static COLONS: Format = Format {
    command: "getent passwd",
    subject: Subject::Account,
    layouts: &[layout("", "\n", "\n", |record| {
        format!(
            "{}:x{}:{}",
            record.name,
            record.each(|_, value| format!(":{value}")),
            record.noted(str::to_owned)
        )
    })],
};
