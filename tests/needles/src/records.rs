//! Records of several lines, each with a name of its own, as files and commands of all sorts have
//! them.

use std::fmt::Write as _;

use crate::{
    kind::Generator,
    scene::{Needle, NeedleSort, Scene, capitalized},
};

/// What records are about.
#[derive(Clone, Copy)]
pub(crate) enum Subject {
    Service,
    Package,
    Account,
}

/// A record, before it is written in a format.
pub(crate) struct Record {
    pub(crate) name: String,
    fields: Vec<(&'static str, String)>,
    note: Option<String>,
}

/// Values that no usual record has, and fields.
const ODD_VALUES: [&str; 6] = [
    "pewter",
    "museum",
    "barter",
    "amphora",
    "driftwood",
    "handmade",
];
static ODD_FIELDS: [&str; 5] = [
    "run_as_root",
    "bypass_review",
    "shadow_of",
    "legacy_mode",
    "mirror_to",
];

/// The fields of which usual records have one of a few values.
const ENUMERATED: [&str; 4] = ["tier", "license", "on_failure", "loginShell"];

impl Record {
    fn usual(scene: &mut Scene, subject: Subject) -> Self {
        let (service, module, user) = (scene.service(), scene.module(), scene.user());
        let name = format!("{service}-{module}-{}", scene.dice.hex(5));
        let pick = |scene: &mut Scene, from: &[&str]| scene.dice.skewed(from).to_owned();
        let fields = match subject {
            Subject::Service => vec![
                (
                    "image",
                    format!("registry.example.org/{service}:{}", scene.version()),
                ),
                ("replicas", scene.number(1, 6).to_string()),
                ("owner", user),
                ("memory_mb", (scene.number(1, 32) * 64).to_string()),
                ("port", scene.number(8000, 8080).to_string()),
                ("on_failure", pick(scene, &["restart", "ignore", "abort"])),
                ("max_errors", scene.number(1, 9).to_string()),
                ("tier", pick(scene, &["gold", "silver", "bronze"])),
                ("enabled", (!scene.dice.one_in(12)).to_string()),
            ],
            Subject::Package => vec![
                ("version", scene.version()),
                ("license", pick(scene, &["MIT", "Apache-2.0", "ISC", "BSD"])),
                ("checksum", scene.dice.hex(40)),
                ("maintainer", user),
                ("size", scene.number(4_000, 900_000).to_string()),
                ("error_policy", pick(scene, &["unwind", "abort"])),
                ("optional", scene.dice.one_in(6).to_string()),
            ],
            Subject::Account => vec![
                ("uidNumber", scene.number(10_000, 60_000).to_string()),
                ("mail", format!("{user}@example.org")),
                (
                    "loginShell",
                    pick(scene, &["/bin/bash", "/bin/zsh", "/bin/sh"]),
                ),
                ("department", scene.noun()),
                ("failedLogins", scene.number(0, 5).to_string()),
                ("passwordExpired", scene.dice.one_in(9).to_string()),
                ("quotaMb", (scene.number(1, 20) * 512).to_string()),
            ],
        };
        let note = match scene.dice.below(14) {
            0 => Some("second attempt failed, went on with the cache".to_owned()),
            1 => Some(format!("reviewed by {}", scene.user())),
            2 => Some(format!("TODO: move to {}", scene.module())),
            _ if scene.is_one_off(260) => {
                Some(format!("the {} {}", scene.adjective(), scene.noun()))
            }
            _ => None,
        };
        Self { name, fields, note }
    }

    /// A record with something in it that no other has, and the needle without its text.
    fn telling(scene: &mut Scene, subject: Subject, sort: NeedleSort) -> (Self, Needle) {
        let mut record = Self::usual(scene, subject);
        record.note = None;
        let phrase = scene.phrase(sort);
        let choice = scene.dice.below(4);
        let evidence = match (sort, choice) {
            (NeedleSort::Odd, 0) => {
                let value = scene.dice.pick(&ODD_VALUES).to_owned();
                record.set(&value, |key, _| ENUMERATED.contains(&key));
                value
            }
            (NeedleSort::Odd, 1) => {
                let number = scene.number(40_000_000, 900_000_000).to_string();
                record.set(&number, |_, value| value.parse::<usize>().is_ok());
                number
            }
            (NeedleSort::Odd, 2) => {
                let key = scene.dice.pick(&ODD_FIELDS);
                let value = scene.dice.name();
                record.fields.push((key, value.clone()));
                value
            }
            (NeedleSort::Failure, 0) => {
                record.fields.push(("last_message", phrase.text.clone()));
                phrase.text.clone()
            }
            _ => {
                record.note = Some(phrase.text.clone());
                phrase.text.clone()
            }
        };
        let mut needle = phrase.within(String::new());
        if sort == NeedleSort::Odd && choice < 3 {
            needle.subject.clone_from(&record.name);
        }
        needle.evidence = vec![evidence, record.name.clone()];
        (record, needle)
    }

    fn set(&mut self, value: &str, is_meant: impl Fn(&str, &str) -> bool) {
        let mut fields = self.fields.iter_mut();
        if let Some((_, old)) = fields.find(|(key, old)| is_meant(key, old)) {
            value.clone_into(old);
        }
    }

    /// Its fields, each written by `write`.
    pub(crate) fn each(&self, write: impl Fn(&str, &str) -> String) -> String {
        self.fields
            .iter()
            .map(|(key, value)| write(key, value))
            .collect()
    }

    /// Its note, if it has one, written by `write`.
    pub(crate) fn noted(&self, write: impl Fn(&str) -> String) -> String {
        self.note.as_deref().map(write).unwrap_or_default()
    }
}

/// How records are written one after another.
pub(crate) struct Layout {
    head: &'static str,
    between: &'static str,
    tail: &'static str,
    write: fn(&Record) -> String,
}

/// A format, in one of some layouts.
pub(crate) struct Format {
    pub(crate) command: &'static str,
    pub(crate) subject: Subject,
    pub(crate) layouts: &'static [Layout],
}

/// Records in a format.
pub(crate) struct Records {
    format: &'static Format,
    layout: &'static Layout,
}

impl Records {
    pub(crate) fn new(scene: &mut Scene, format: &'static Format) -> Self {
        let place = scene.dice.below(format.layouts.len());
        let layout = format.layouts.get(place).unwrap_or(&XML_NESTED);
        Self { format, layout }
    }
}

impl Generator for Records {
    fn head(&mut self, _: &mut Scene) -> String {
        self.layout.head.into()
    }

    fn unit(&mut self, scene: &mut Scene, _: usize) -> String {
        (self.layout.write)(&Record::usual(scene, self.format.subject))
    }

    fn between(&self) -> &'static str {
        self.layout.between
    }

    fn tail(&mut self, _: &mut Scene) -> String {
        self.layout.tail.into()
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, _: usize) -> Needle {
        let (record, mut needle) = Record::telling(scene, self.format.subject, sort);
        needle.text = (self.layout.write)(&record);
        needle
    }

    fn command(&mut self, _: &mut Scene) -> String {
        self.format.command.into()
    }
}

pub(crate) const fn layout(
    head: &'static str,
    between: &'static str,
    tail: &'static str,
    write: fn(&Record) -> String,
) -> Layout {
    Layout {
        head,
        between,
        tail,
        write,
    }
}

static XML_NESTED: Layout = layout("<inventory>\n", "\n", "\n</inventory>\n", xml_nested);

fn xml_nested(record: &Record) -> String {
    format!(
        "  <service id=\"{}\">{}{}\n  </service>",
        record.name,
        record.each(|key, value| format!("\n    <{key}>{value}</{key}>")),
        record.noted(|note| format!("\n    <note>{note}</note>"))
    )
}

fn xml_attributes(record: &Record) -> String {
    let fields = record.each(|key, value| format!(" {key}=\"{value}\""));
    let note = record.noted(|note| format!("\n    <note lang=\"en\">{note}</note>"));
    if note.is_empty() {
        return format!("  <service name=\"{}\"{fields}/>", record.name);
    }
    format!(
        "  <service name=\"{}\"{fields}>{note}\n  </service>",
        record.name
    )
}

/// Records with elements and with attributes, indented and on one line, with a declaration and
/// without.
pub(crate) static XML: Format = Format {
    command: "curl -s http://inventory.internal/all",
    subject: Subject::Service,
    layouts: &[
        layout("<inventory>\n", "\n", "\n</inventory>\n", xml_nested),
        layout(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<inventory>\n",
            "\n",
            "\n</inventory>\n",
            xml_nested,
        ),
        layout("<inventory>\n", "\n", "\n</inventory>\n", xml_attributes),
        layout("<inventory>", "", "</inventory>", |record| {
            xml_nested(record).replace('\n', "").replace("  ", "")
        }),
    ],
};

/// A report of tests as continuous integration reads it.
pub(crate) static JUNIT: Format = Format {
    command: "cat build/test-results.xml",
    subject: Subject::Package,
    layouts: &[
        layout(
            "<?xml version=\"1.0\"?>\n<testsuites>\n<testsuite name=\"all\" errors=\"0\">\n",
            "\n",
            "\n</testsuite>\n</testsuites>\n",
            |record| junit(record, "\n"),
        ),
        layout(
            "<testsuites><testsuite name=\"all\" failures=\"3\">",
            "",
            "</testsuite></testsuites>\n",
            |record| junit(record, ""),
        ),
    ],
};

fn junit(record: &Record, end: &str) -> String {
    let mut rest = format!("<properties>{end}");
    for (key, value) in record.fields.iter().filter(|(key, _)| *key != "checksum") {
        let _ = write!(rest, "<property name=\"{key}\" value=\"{value}\"/>{end}");
    }
    let note = record.noted(|note| {
        format!("<failure message=\"{note}\" type=\"AssertionError\">{end}at org.example.Runner.check(Runner.java:88){end}</failure>{end}")
    });
    format!(
        "<testcase name=\"{}\" classname=\"org.example.Shop\" time=\"0.0{}\">{end}{rest}</properties>{end}{note}</testcase>",
        record.name,
        record.name.len()
    )
}

/// A property list.
pub(crate) static PLIST: Format = Format {
    command: "plutil -convert xml1 -o - agents.plist",
    subject: Subject::Service,
    layouts: &[layout(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n<plist version=\"1.0\">\n<array>\n",
        "\n",
        "\n</array>\n</plist>\n",
        |record| {
            let value = |value: &str| match value {
                "true" | "false" => format!("<{value}/>"),
                _ if value.parse::<usize>().is_ok() => format!("<integer>{value}</integer>"),
                _ => format!("<string>{value}</string>"),
            };
            let field =
                |key: &str, text: &str| format!("\n\t\t<key>{key}</key>\n\t\t{}", value(text));
            format!(
                "\t<dict>{}{}{}\n\t</dict>",
                field("Label", &record.name),
                record.each(field),
                record.noted(|note| field("Comment", note))
            )
        },
    )],
};

/// Lock files that are no JSON.
pub(crate) static PACKAGES: Format = Format {
    command: "cat packages.lock",
    subject: Subject::Package,
    layouts: &[
        layout("# This file is @generated.\n\n", "\n", "", |record| {
            format!(
                "[[package]]\nname = \"{}\"\n{}files = [\n    {{file = \"wheel.whl\", hash = \"sha256:{}\"}},\n]\n{}\n[package.dependencies]\nattrs = \">=1\"\n",
                record.name,
                record.each(|key, value| format!("{key} = \"{value}\"\n")),
                "5".repeat(12),
                record.noted(|note| format!("description = \"{note}\"\n"))
            )
        }),
        layout("# yarn lockfile v1\n\n\n", "\n", "", |record| {
            format!(
                "{}@^{}:\n{}  dependencies:\n    tslib \"^2.0.0\"\n{}",
                record.name,
                record.fields.first().map_or("1", |(_, version)| version),
                record.each(|key, value| format!("  {key} \"{value}\"\n")),
                record.noted(|note| format!("  # {note}\n"))
            )
        }),
    ],
};

/// Lists in YAML.
pub(crate) static YAML_LIST: Format = Format {
    command: "cat deploy/all.yaml",
    subject: Subject::Service,
    layouts: &[
        layout("services:\n", "\n", "\n", |record| {
            format!(
                "  - name: {}{}{}",
                record.name,
                record.each(|key, value| format!("\n    {key}: {value}")),
                record.noted(|note| format!("\n    # {note}"))
            )
        }),
        layout(
            "apiVersion: v1\nkind: List\nitems:\n",
            "\n",
            "\n",
            |record| {
                format!(
                    "- apiVersion: apps/v1\n  kind: Deployment\n  metadata:\n    creationTimestamp: \"2026-04-17T10:00:00Z\"\n    labels:\n      app: shop\n    name: {}\n    namespace: default\n  spec:\n    strategy:\n      type: Recreate\n    template:{}\n  status:\n    phase: Running{}",
                    record.name,
                    record.each(|key, value| format!("\n      {key}: {value}")),
                    record.noted(|note| format!("\n    message: \"{note}\""))
                )
            },
        ),
        layout("---\n", "\n---\n", "\n", |record| {
            format!(
                "kind: Service\nmetadata:\n  name: {}\nspec:{}{}",
                record.name,
                record.each(|key, value| format!("\n  {key}: {value}")),
                record.noted(|note| format!("\n  # {note}"))
            )
        }),
    ],
};

/// Sections of keys and values.
pub(crate) static INI: Format = Format {
    command: "cat /etc/shop/services.ini",
    subject: Subject::Service,
    layouts: &[
        layout("; services\n\n", "\n\n", "\n", |record| {
            ini(record, " = ", "; ")
        }),
        layout("# services\n", "\n", "\n", |record| ini(record, "=", "# ")),
    ],
};

fn ini(record: &Record, sign: &str, comment: &str) -> String {
    format!(
        "[{}]{}{}",
        record.name,
        record.noted(|note| format!("\n{comment}{note}")),
        record.each(|key, value| format!("\n{key}{sign}{value}"))
    )
}

/// The entries of a directory.
pub(crate) static LDIF: Format = Format {
    command: "ldapsearch -x -LLL",
    subject: Subject::Account,
    layouts: &[layout("version: 1\n\n", "\n\n", "\n", |record| {
        format!(
            "dn: uid={},ou=people,dc=example,dc=org\nobjectClass: inetOrgPerson\nobjectClass: posixAccount{}{}",
            record.name,
            record.each(|key, value| format!("\n{key}: {value}")),
            record.noted(|note| format!("\ndescription: {note}"))
        )
    })],
};

/// What would be changed in an infrastructure.
pub(crate) static TERRAFORM: Format = Format {
    command: "terraform plan -no-color",
    subject: Subject::Service,
    layouts: &[layout(
        "Terraform will perform the following actions:\n\n",
        "\n\n",
        "\n\nPlan: 0 to add, many to change, 0 to destroy.\n",
        |record| {
            format!(
                "  # module.shop.example_service.this[\"{}\"] will be updated in-place\n  ~ resource \"example_service\" \"this\" {{\n        id = \"svc\"{}{}\n        # (4 unchanged attributes hidden)\n    }}",
                record.name,
                record.each(|key, value| match key {
                    "replicas" => format!("\n      ~ replicas = 1 -> {value}"),
                    _ => format!("\n      + {key} = \"{value}\""),
                }),
                record.noted(|note| format!("\n      + description = \"{note}\""))
            )
        },
    )],
};

/// The hosts of a web server.
pub(crate) static NGINX: Format = Format {
    command: "nginx -T",
    subject: Subject::Service,
    layouts: &[layout("http {\n", "\n", "\n}\n", |record| {
        format!(
            "    server {{\n        listen 443 ssl;\n        server_name {}.example.org;\n{}        error_page 500 502 /50x.html;\n        location / {{{}\n        }}\n    }}",
            record.name,
            record.noted(|note| format!("        # {note}\n")),
            record.each(|key, value| format!("\n            proxy_{key} {value};"))
        )
    })],
};

/// The types of an interface.
pub(crate) static GRAPHQL: Format = Format {
    command: "cat schema.graphql",
    subject: Subject::Service,
    layouts: &[layout("", "\n\n", "\n", |record| {
        let words = record.name.split('-');
        let name: String = words.map(capitalized).collect();
        format!(
            "type {name} implements Node @key(name: \"{}\") {{\n  id: ID!{}{}\n}}",
            record.name,
            record.each(|key, value| format!("\n  {key}(default: String = \"{value}\"): String")),
            record.noted(|note| format!("\n  \"{note}\"\n  error: Failure"))
        )
    })],
};

/// Rows with cells of several lines.
pub(crate) static LONG_CELLS: Format = Format {
    command: "cat export/accounts.csv",
    subject: Subject::Account,
    layouts: &[layout(
        "name,uid,mail,shell,department,failed,expired,quota,remarks\n",
        "\n",
        "\n",
        |record| {
            let cells = record.fields.iter().take(7);
            let usual: Vec<String> = cells.map(|(_, value)| format!(",{value}")).collect();
            let more = record.fields.iter().skip(7);
            let more: Vec<String> = more
                .map(|(key, value)| format!("\n{key}: {value}"))
                .collect();
            let (usual, more) = (usual.concat(), more.concat());
            format!(
                "{}{usual},\"Imported from the old system.\nChecked twice, no errors.{}{more}\"",
                record.name,
                record.noted(|note| format!("\n{note}"))
            )
        },
    )],
};
