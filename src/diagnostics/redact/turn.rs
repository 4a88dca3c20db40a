//! All of a turn. Every field is named, so that a new one is not forgotten.

use std::borrow::Cow;
use std::collections::BTreeSet;

use adapters::fault::Fault;
use registry::{RegistrySnapshot, RouteSnapshot};

use super::Scrubber;
use super::again::{Again, Remade};
use super::ids::Ids;
use crate::diagnostics::bundle::{Answer, Attempt, Head, Omitted, Request, Turn};
use crate::turn::Given;

/// The most outputs of which each tells of the one before by its id.
const ID_ROUNDS: usize = 32;

impl Scrubber {
    /// The turn without secrets. A turn that has none comes back as it is.
    pub fn turn(&self, turn: &Turn) -> Turn {
        let new = self.scrubbed(turn.clone());
        let is_same = turn.request.body == new.request.body
            && turn.given.items == new.given.items
            && turn.given.baggage == new.given.baggage
            && turn.given.tools == new.given.tools;
        if is_same {
            return new;
        }
        self.again(turn, &new)
    }

    /// What the program made of the request is made again without secrets.
    fn again(&self, old: &Turn, scrubbed: &Turn) -> Turn {
        let mut ids = Ids::default();
        let mut new = scrubbed.clone();
        // An output may tell of another by its id; none tells of itself, so there is
        // an end.
        for _ in 0..ID_ROUNDS {
            let found = Again::of(old, &new).and_then(|again| again.ids());
            let found = found.unwrap_or_default();
            if found == ids {
                break;
            }
            ids = found;
            new = renamed(&ids, scrubbed.clone());
        }
        let Some(again) = Again::of(old, &new) else {
            return new;
        };
        let plan = again.plan();
        let made: Vec<Remade> = (0..old.attempts.len())
            .map(|index| again.request(index))
            .collect();
        if let Some(plan) = plan {
            new.plan = self.bytes(plan);
        }
        for (index, (attempt, made)) in new.attempts.iter_mut().zip(made).enumerate() {
            match made {
                Remade::Body(body, estimated_input) => {
                    attempt.body = self.bytes(body);
                    attempt.estimated_input = estimated_input;
                }
                Remade::Whole => {}
                Remade::Unknown => {
                    let what = format!("attempt {} request", index + 1);
                    let total = attempt.body.len() as u64;
                    attempt.body.clear();
                    match new.omitted.iter_mut().find(|one| one.what == what) {
                        Some(omitted) => omitted.kept = 0,
                        None => new.omitted.push(Omitted {
                            what,
                            total,
                            kept: 0,
                        }),
                    }
                }
            }
        }
        new
    }

    fn scrubbed(&self, turn: Turn) -> Turn {
        let Turn {
            request_id,
            version,
            config_digest,
            began_ms,
            took_us,
            outcome,
            fault,
            notes,
            usage,
            ending_us,
            request,
            answer,
            attempts,
            settings,
            heartbeat_ms,
            commit_after_ms,
            given,
            clock,
            random,
            omitted,
            plan,
        } = turn;
        let given = self.given(given, fault.iter().chain(attempts_faults(&attempts)));
        let notes = notes.into_iter();
        Turn {
            request_id,
            version,
            config_digest,
            began_ms,
            took_us,
            outcome,
            fault: fault.map(|fault| self.fault(fault)),
            notes: notes
                .map(|(code, detail)| (code, self.string(detail)))
                .collect(),
            usage,
            ending_us,
            request: self.request(request),
            answer: self.answer(answer),
            attempts: attempts.into_iter().map(|one| self.attempt(one)).collect(),
            settings: self.settings(settings),
            heartbeat_ms,
            commit_after_ms,
            given,
            clock,
            random,
            omitted,
            plan: self.bytes(plan),
        }
    }

    fn request(&self, request: Request) -> Request {
        let Request {
            path,
            mut headers,
            body,
        } = request;
        self.headers(&mut headers);
        Request {
            path: self.url(&path),
            headers,
            body: self.bytes(body),
        }
    }

    fn answer(&self, answer: Answer) -> Answer {
        let Answer {
            status,
            mut headers,
            pieces,
            body,
        } = answer;
        self.headers(&mut headers);
        Answer {
            status,
            headers,
            pieces,
            body: self.bytes(body),
        }
    }

    fn attempt(&self, attempt: Attempt) -> Attempt {
        let mut headers = attempt.headers;
        self.headers(&mut headers);
        Attempt {
            route: self.string(attempt.route),
            url: self.url(&attempt.url),
            headers,
            head: attempt.head.map(|head| self.head(head)),
            fault: attempt.fault.map(|fault| self.fault(fault)),
            body: self.bytes(attempt.body),
            answer: self.bytes(attempt.answer),
            at_us: attempt.at_us,
            end_us: attempt.end_us,
            key: attempt.key,
            window: attempt.window,
            bytes_per_token: attempt.bytes_per_token,
            estimated_input: attempt.estimated_input,
            pieces: attempt.pieces,
            ended: attempt.ended,
        }
    }

    fn head(&self, head: Head) -> Head {
        let Head {
            at_us,
            status,
            mut headers,
        } = head;
        self.headers(&mut headers);
        Head {
            at_us,
            status,
            headers,
        }
    }

    fn fault(&self, fault: Fault) -> Fault {
        let Fault {
            kind,
            retry,
            message,
            param,
            code,
            upstream_status,
            cause,
            mend,
        } = fault;
        let short = |text: Cow<'static, str>| match self.text(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(clean) => Cow::Owned(clean),
        };
        Fault {
            kind,
            retry,
            message: self.string(message),
            param: param.map(short),
            code: code.map(short),
            upstream_status,
            cause: cause.map(|cause| self.string(cause.into()).into()),
            mend,
        }
    }

    fn settings(&self, settings: RegistrySnapshot) -> RegistrySnapshot {
        let RegistrySnapshot {
            asked,
            default,
            routes,
            unresolved,
            open,
        } = settings;
        RegistrySnapshot {
            asked: self.string(asked),
            default,
            routes: routes.into_iter().map(|route| self.route(route)).collect(),
            unresolved,
            open,
        }
    }

    /// Names are the registry's, but for what the user put into them.
    fn route(&self, route: RouteSnapshot) -> RouteSnapshot {
        let mut route = route;
        route.base_url = self.url(&route.base_url);
        route.upstream_model = self.string(route.upstream_model);
        route.model.id = self.string(route.model.id);
        route.model.name = self.string(route.model.name);
        route.model.description = self.string(route.model.description);
        for (_, json) in &mut route.dialect.body {
            *json = self.string(std::mem::take(json));
        }
        self.headers(&mut route.headers);
        self.query(&mut route.query);
        route
    }

    fn given<'f>(&self, given: Given, faults: impl Iterator<Item = &'f Fault>) -> Given {
        let mut given = given;
        for json in given.items.values_mut() {
            *json = self.string(std::mem::take(json));
        }
        for blobs in given.baggage.values_mut() {
            let clean: Vec<String> = blobs.split(' ').map(|blob| self.blob(blob)).collect();
            *blobs = clean.join(" ");
        }
        given.moved_to = given.moved_to.map(|route| self.string(route));
        given.tools = given.tools.map(|tools| self.string(tools));
        // Once: later it may be that other secrets are known.
        if given.stand_ins.is_empty() {
            let secrets = self.redactor.secrets().iter();
            given.stand_ins = secrets
                .map(|secret| self.string(secret.expose().to_owned()))
                .chain(self.stand_ins(faults))
                .collect();
        }
        given
    }

    /// What stands for the secrets that only their look tells, as far as a fault
    /// quotes them: these the client was not told.
    fn stand_ins<'f>(&self, faults: impl Iterator<Item = &'f Fault>) -> BTreeSet<String> {
        let texts = faults.flat_map(|fault| {
            let short = [&fault.param, &fault.code].into_iter().flatten();
            let short = short.map(AsRef::as_ref).chain(fault.cause.as_deref());
            short.chain([fault.message.as_str()])
        });
        let fillers = texts.flat_map(|text| {
            let whole = 0..text.len();
            self.fill(text.into(), std::slice::from_ref(&whole), &[]).1
        });
        fillers
            .filter_map(|filler| String::from_utf8(filler).ok())
            .collect()
    }
}

/// The turn with other artifact ids.
fn renamed(ids: &Ids, turn: Turn) -> Turn {
    let mut turn = turn;
    let bodies = [
        &mut turn.request.body,
        &mut turn.answer.body,
        &mut turn.plan,
    ];
    let attempts = turn.attempts.iter_mut();
    let attempts = attempts.flat_map(|attempt| [&mut attempt.body, &mut attempt.answer]);
    for body in bodies.into_iter().chain(attempts) {
        *body = ids.renamed(std::mem::take(body));
    }
    let given = &mut turn.given;
    let texts = given.items.values_mut().chain(given.baggage.values_mut());
    for text in texts.chain(&mut given.tools) {
        *text = ids.string(std::mem::take(text));
    }
    turn
}

fn attempts_faults(attempts: &[Attempt]) -> impl Iterator<Item = &Fault> {
    attempts.iter().filter_map(|one| one.fault.as_ref())
}
