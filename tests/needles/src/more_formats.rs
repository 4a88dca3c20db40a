//! Formats of records that were written after the search for evidence.

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
