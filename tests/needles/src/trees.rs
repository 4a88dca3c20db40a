//! Nested data: JSON, manifests, lock files, and configurations.

use serde_json::{Value, json};

use crate::{
    kind::Generator,
    scene::{Needle, NeedleSort, Scene},
};

/// A list of deployed objects in deep, indented JSON.
pub(crate) struct NestedJson;

impl NestedJson {
    fn object(scene: &mut Scene, line: usize) -> Value {
        let (service, module, user) = (scene.service(), scene.module(), scene.user());
        let ready = !scene.dice.one_in(12);
        let (cpu, memory, port) = (
            scene.number(1, 16) * 100,
            scene.number(1, 16) * 128,
            scene.number(8000, 8020),
        );
        let reason = if ready {
            "AllReplicasReady"
        } else {
            "ProbeFailed"
        };
        let mut object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": format!("{service}-{module}-{line}"), "namespace": service,
                "uid": scene.dice.hex(12), "labels": {"app": service, "team": user, "tier": "backend"}},
            "spec": {"replicas": scene.number(1, 6), "template": {"containers": [
                {"name": module, "image": format!("registry.example.org/{service}/{module}:{}", scene.version()),
                 "resources": {"limits": {"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")}},
                 "ports": [{"containerPort": port, "protocol": "TCP"}],
                 "env": [{"name": "MODE", "value": "production"}, {"name": "REGION", "value": "eu-north"}]}]}},
            "status": {"ready": ready, "conditions": [{"type": "Available", "status": "True", "reason": reason}]}
        });
        if scene.dice.one_in(3) {
            let text = format!("rolled out by {user} in {} s", scene.number(4, 90));
            let (path, key) = match scene.dice.below(3) {
                0 => ("metadata", "description"),
                _ => ("status", "message"),
            };
            insert(&mut object, &[path], key, json!(text));
        }
        if scene.is_one_off(1_100) {
            let (key, value) = (scene.noun(), scene.noun());
            insert(&mut object, &["metadata", "labels"], &key, json!(value));
        }
        object
    }

    fn written(object: &Value) -> String {
        let text = serde_json::to_string_pretty(object).unwrap_or_default();
        format!("    {}", text.replace('\n', "\n    "))
    }
}

/// Inserts a member into the object at this path.
fn insert(value: &mut Value, path: &[&str], key: &str, member: Value) {
    let mut place = value;
    for step in path {
        let next = match step.parse::<usize>() {
            Ok(index) => place.get_mut(index),
            Err(_) => place.get_mut(*step),
        };
        match next {
            Some(next) => place = next,
            None => return,
        }
    }
    if let Some(object) = place.as_object_mut() {
        object.insert(key.into(), member);
    }
}

impl Generator for NestedJson {
    fn head(&mut self, _: &mut Scene) -> String {
        "{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"List\",\n  \"items\": [\n".into()
    }

    fn unit(&mut self, scene: &mut Scene, line: usize) -> String {
        Self::written(&Self::object(scene, line))
    }

    fn between(&self) -> &'static str {
        ",\n"
    }

    fn tail(&mut self, _: &mut Scene) -> String {
        "\n  ]\n}\n".into()
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, line: usize) -> Needle {
        let mut object = Self::object(scene, line);
        let container = ["spec", "template", "containers", "0"];
        let (name, number) = (scene.dice.name(), scene.number(10_000, 90_000).to_string());
        let evidence = match (sort, scene.dice.below(3)) {
            (NeedleSort::Odd, 0) => {
                let image = format!("{name}.example.net/patched:{number}");
                insert(&mut object, &container, "image", json!(image));
                image
            }
            (NeedleSort::Odd, 1) => {
                let memory = format!("{number}Gi");
                insert(
                    &mut object,
                    &["spec", "template", "containers", "0", "resources", "limits"],
                    "memory",
                    json!(memory),
                );
                memory
            }
            (NeedleSort::Failure, 0 | 1) => {
                let reason = format!("BackOffOf{number}");
                insert(
                    &mut object,
                    &["status"],
                    "conditions",
                    json!([{"type": "Progressing", "status": "False", "reason": reason}]),
                );
                reason
            }
            (_, choice) => {
                let phrase = scene.phrase(sort);
                let path: &[&str] = if choice == 0 {
                    &["metadata"]
                } else {
                    &["status"]
                };
                insert(
                    &mut object,
                    path,
                    if choice == 0 {
                        "description"
                    } else {
                        "message"
                    },
                    json!(phrase.text),
                );
                return phrase.within(Self::written(&object));
            }
        };
        Needle::new(Self::written(&object), [&evidence], &name)
    }

    fn command(&mut self, _: &mut Scene) -> String {
        "kubectl get deployments -A -o json".into()
    }
}

/// A manifest of services in YAML.
pub(crate) struct Manifest;

impl Manifest {
    fn block(scene: &mut Scene, line: usize, extra: &str) -> String {
        let (service, module, user) = (scene.service(), scene.module(), scene.user());
        format!(
            "{service}_{module}_{line}:\n  image: registry.example.org/{service}/{module}:{}\n  replicas: {}\n  owner: {user}\n  limits: {{cpu: {}, memory: {}Mi}}\n  probe:\n    path: /healthz\n    timeout_seconds: {}\n    failure_threshold: 3{extra}",
            scene.version(),
            scene.number(1, 6),
            scene.number(1, 8),
            scene.number(1, 32) * 64,
            scene.number(1, 5),
        )
    }
}

impl Generator for Manifest {
    fn head(&mut self, _: &mut Scene) -> String {
        "version: 3\nservices:\n".into()
    }

    fn unit(&mut self, scene: &mut Scene, line: usize) -> String {
        let extra = match scene.dice.below(24) {
            0 => format!("\n  # reviewed by {}", scene.user()),
            1 => format!("\n  # TODO: lower the memory of {}", scene.module()),
            2 => format!("\n  mount: /mnt/{}/{}", scene.noun(), scene.number(1, 90)),
            _ if scene.is_one_off(220) => format!("\n  {}: {}", scene.noun(), scene.noun()),
            _ => String::new(),
        };
        Self::block(scene, line, &extra)
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, line: usize) -> Needle {
        let (name, number) = (scene.dice.name(), scene.number(10_000, 90_000).to_string());
        let (extra, evidence) = match (sort, scene.dice.below(3)) {
            (NeedleSort::Odd, 0) => (
                format!("\n  privileged_{name}: {number}"),
                format!("privileged_{name}: {number}"),
            ),
            (NeedleSort::Odd, 1) => (
                format!("\n  host_path: /mnt/{name}/{number}"),
                format!("/mnt/{name}/{number}"),
            ),
            _ => {
                let phrase = scene.phrase(sort);
                let extra = format!("\n  # {}", phrase.text);
                return phrase.within(Self::block(scene, line, &extra));
            }
        };
        Needle::new(Self::block(scene, line, &extra), [&evidence], &name)
    }

    fn command(&mut self, _: &mut Scene) -> String {
        "cat deploy/services.yaml".into()
    }
}

/// The lock file of npm or cargo.
pub(crate) struct LockFile {
    npm: bool,
}

impl LockFile {
    pub(crate) fn new(scene: &mut Scene) -> Self {
        Self {
            npm: scene.dice.one_in(2),
        }
    }

    fn package(&self, scene: &mut Scene, extra: &str, source: Option<&str>) -> String {
        let name = format!("{}-{}", scene.module(), scene.user());
        let version = scene.version();
        if self.npm {
            let usual = format!("https://registry.example.org/{name}/-/{name}-{version}.tgz");
            let license = scene
                .dice
                .skewed(&["MIT", "ISC", "Apache-2.0", "BSD-3-Clause"]);
            let license = license.to_owned();
            return format!(
                "    \"node_modules/{name}\": {{\n      \"version\": \"{version}\",\n      \"resolved\": \"{}\",\n      \"integrity\": \"sha512-{}\",\n      \"license\": \"{license}\"{extra}\n    }}",
                source.unwrap_or(&usual),
                scene.dice.base64(64),
            );
        }
        let usual = "registry+https://index.example.org/";
        let (one, two) = (scene.module(), scene.module());
        format!(
            "[[package]]\nname = \"{name}\"\nversion = \"{version}\"\nsource = \"{}\"\nchecksum = \"{}\"\ndependencies = [\n \"{one}\",\n \"{two}\",\n]{extra}\n",
            source.unwrap_or(usual),
            scene.dice.hex(64),
        )
    }
}

impl Generator for LockFile {
    fn head(&mut self, _: &mut Scene) -> String {
        if self.npm {
            "{\n  \"name\": \"shop\",\n  \"lockfileVersion\": 3,\n  \"packages\": {\n".into()
        } else {
            "# This file is automatically @generated.\nversion = 4\n\n".into()
        }
    }

    fn unit(&mut self, scene: &mut Scene, _: usize) -> String {
        let extra = match (self.npm, scene.dice.below(12)) {
            (true, 0) => ",\n      \"engines\": {\n        \"node\": \">=18\"\n      }",
            (true, 1 | 2) => ",\n      \"dev\": true",
            (true, 3) => ",\n      \"peer\": true",
            (true, 4) => ",\n      \"deprecated\": \"this version is no longer supported\"",
            _ => "",
        };
        self.package(scene, extra, None)
    }

    fn between(&self) -> &'static str {
        if self.npm { ",\n" } else { "\n" }
    }

    fn tail(&mut self, _: &mut Scene) -> String {
        if self.npm { "\n  }\n}\n" } else { "\n" }.into()
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, _: usize) -> Needle {
        let (name, number) = (scene.dice.name(), scene.dice.hex(10));
        if sort == NeedleSort::Odd {
            let source = match scene.dice.below(3) {
                0 => format!("git+ssh://git@{name}.example.net/fork.git#{number}"),
                1 => format!("file:../{name}-{number}"),
                _ => format!("https://{name}.example.net/mirror/{number}.tgz"),
            };
            let text = self.package(scene, "", Some(&source));
            return Needle::new(text, [&source], &name);
        }
        let phrase = scene.phrase(sort);
        let extra = if self.npm {
            format!(",\n      \"deprecated\": \"{}\"", phrase.text)
        } else {
            format!("\n# {}", phrase.text)
        };
        phrase.within(self.package(scene, &extra, None))
    }

    fn command(&mut self, _: &mut Scene) -> String {
        if self.npm {
            "cat package-lock.json"
        } else {
            "cat Cargo.lock"
        }
        .into()
    }
}

/// A configuration of keys and values with comments.
pub(crate) struct KeyValues;

impl Generator for KeyValues {
    fn unit(&mut self, scene: &mut Scene, line: usize) -> String {
        let (service, module, noun, verb) =
            (scene.service(), scene.module(), scene.noun(), scene.verb());
        if scene.is_one_off(48) {
            let user = scene.user();
            return match scene.dice.below(3) {
                0 => format!("# asked for by {user}"),
                1 => format!("{service}.{module}.theme={user}"),
                _ => format!("# see the handbook, chapter {}", scene.number(2, 40)),
            };
        }
        match scene.dice.below(16) {
            0 => format!("\n# {service}: {noun} settings of the {module}"),
            1..=4 => format!("{service}.{module}.{noun}.max={}", scene.number(1, 64) * 16),
            5..=7 => format!(
                "{service}.{module}.{verb}.timeout.ms={}",
                scene.number(1, 60) * 500
            ),
            8..=9 => format!(
                "{service}.{module}.{noun}.enabled={}",
                !line.is_multiple_of(3)
            ),
            10..=11 => format!("{service}.{module}.{noun}.path=/var/lib/{service}/{noun}"),
            12 => format!("{service}.{module}.on.error=retry"),
            13..=14 => format!(
                "{service}.{module}.{noun}.url=http://{service}.internal:80{:02}/{noun}",
                line % 40
            ),
            _ => format!("{service}.{module}.{noun}.level=info"),
        }
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, _: usize) -> Needle {
        let (service, module, name) = (scene.service(), scene.module(), scene.dice.name());
        let number = scene.number(10_000_000, 90_000_000).to_string();
        let (text, evidence) = match (sort, scene.dice.below(4)) {
            (NeedleSort::Odd, 0) => {
                let key = format!("{service}.{module}.{name}.max");
                (format!("{key}={number}"), [key, number])
            }
            (NeedleSort::Odd, 1) => {
                let url = format!(
                    "http://laptop.{name}.example.net:{}/debug",
                    scene.number(9000, 9999)
                );
                (
                    format!("{service}.{module}.forward.url={url}"),
                    [url, "forward.url".into()],
                )
            }
            (NeedleSort::Odd, 2) => {
                let user = format!("{name}{number}");
                (
                    format!("{service}.{module}.run.as={user}"),
                    ["run.as".into(), user],
                )
            }
            (NeedleSort::Failure, 0) => {
                let state = format!("{service}.{module}.last.state=crashed:{name}:{number}");
                (state, [format!("crashed:{name}"), number])
            }
            _ => {
                let phrase = scene.phrase(sort);
                return phrase.within(format!("# {}", phrase.text));
            }
        };
        let [one, two] = &evidence;
        Needle::new(text, [one, two], &name)
    }

    fn command(&mut self, scene: &mut Scene) -> String {
        format!("cat /etc/{}/main.properties", scene.service())
    }
}
