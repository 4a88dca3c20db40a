//! Formats of records that were written after the search for evidence, the last eleven of them to
//! measure what its parts earn.

use crate::records::{Format, Record, Subject, layout};

/// What is installed on a machine.
pub(crate) static INSTALLED: Format = Format {
    command: "dpkg -s",
    subject: Subject::Package,
    layouts: &[layout("", "\n\n", "\n", |record| {
        format!(
            "Package: {}\nStatus: install ok installed\nPriority: optional{}\nDepends: libc6 (>= 2.34),\n zlib1g{}",
            record.name,
            record.each(|key, value| format!("\n{key}: {value}")),
            record.noted(|note| format!("\nDescription: a tool\n {note}"))
        )
    })],
};

/// The dependencies of a build with Maven.
pub(crate) static POM: Format = Format {
    command: "cat pom.xml",
    subject: Subject::Package,
    layouts: &[layout(
        "<?xml version=\"1.0\"?>\n<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n  <dependencies>\n",
        "\n",
        "\n  </dependencies>\n</project>\n",
        |record| {
            format!(
                "    <dependency>\n      <groupId>org.example</groupId>\n      <artifactId>{}</artifactId>{}{}\n      <exclusions>\n        <exclusion>\n          <groupId>commons</groupId>\n        </exclusion>\n      </exclusions>\n    </dependency>",
                record.name,
                record.each(|key, value| format!("\n      <{key}>{value}</{key}>")),
                record.noted(|note| format!("\n      <!-- {note} -->"))
            )
        },
    )],
};

/// A calendar.
pub(crate) static CALENDAR: Format = Format {
    command: "cat team.ics",
    subject: Subject::Service,
    layouts: &[layout(
        "BEGIN:VCALENDAR\nVERSION:2.0\n",
        "\n",
        "\nEND:VCALENDAR\n",
        |record| {
            format!(
                "BEGIN:VEVENT\nDTSTART:20260417T100000Z\nSUMMARY:Upgrade {}{}{}\nEND:VEVENT",
                record.name,
                record.each(|key, value| format!("\nX-{}:{value}", key.to_uppercase())),
                record.noted(|note| format!("\nDESCRIPTION:{note}"))
            )
        },
    )],
};

/// The history of a repository.
pub(crate) static COMMITS: Format = Format {
    command: "git log --stat",
    subject: Subject::Package,
    layouts: &[layout("", "\n\n", "\n", |record| {
        format!(
            "commit {}\nAuthor: Robin <robin@example.org>\nDate:   Fri Apr 17 10:00:00 2026 +0200\n\n    Bump the version\n{}{}\n\n src/lib.rs | 4 ++--\n 1 file changed, 2 insertions(+), 2 deletions(-)",
            record.name,
            record.noted(|note| format!("\n    {note}\n")),
            record.each(|key, value| format!("\n    {key}: {value}"))
        )
    })],
};

/// Variables of a deployment in HCL.
pub(crate) static HCL: Format = Format {
    command: "cat services.hcl",
    subject: Subject::Service,
    layouts: &[layout("", "\n\n", "\n", |record| {
        format!(
            "service \"{}\" {{\n  check {{\n    interval = \"10s\"\n  }}\n  settings = {{{}\n  }}{}\n}}",
            record.name,
            record.each(|key, value| format!("\n    {key} = \"{value}\"")),
            record.noted(|note| format!("\n  # {note}"))
        )
    })],
};

/// The units of a machine with their properties.
pub(crate) static UNITS: Format = Format {
    command: "systemctl show --all",
    subject: Subject::Service,
    layouts: &[layout("", "\n\n", "\n", |record: &Record| {
        format!(
            "Type=simple\nRestart=on-failure\nNRestarts=0{}\nId={}.service\nLoadError={}",
            record.each(|key, value| format!("\n{key}={value}")),
            record.name,
            record.noted(str::to_owned)
        )
    })],
};

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

/// Accounts with their fields between colons.
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
