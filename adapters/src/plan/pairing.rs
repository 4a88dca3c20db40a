//! Which items make one answer, and which result belongs to which call.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use super::Answer;
use super::empty;
use super::role::Role;
use crate::turn::Item;

/// A call and what is known of its result.
pub(super) struct Call {
    pub(super) item: usize,
    /// The item that holds its result.
    pub(super) result: Option<usize>,
    /// Whether something else stands between the call's answer and the result.
    pub(super) moved: bool,
    /// The block of its answer.
    answer: usize,
    /// A result with its id that came before it.
    early: Option<usize>,
}

/// A piece of the history, in the order of the items.
pub(super) enum Block {
    Message(usize),
    Answer(Answer),
    /// A result that had no call when it came.
    Result(usize),
}

/// What a result is.
#[derive(Clone, Copy)]
pub(super) enum Fate {
    /// The first one of its call, or no result at all.
    First,
    /// Not the first one of this call.
    Again(usize),
    Orphan,
}

/// The history so far.
pub(super) struct Pairing<'a> {
    pub(super) blocks: Vec<Block>,
    /// In the order of the items, and so of the answers.
    pub(super) calls: Vec<Call>,
    /// In the order of the items.
    pub(super) fates: Vec<Fate>,
    /// The block that may still grow.
    open: Option<usize>,
    /// The calls that wait for a result, by id and answer; those without an
    /// id under the empty one.
    waiting: HashMap<Cow<'a, str>, Vec<(usize, VecDeque<usize>)>>,
    /// The last call with this id that has a result.
    answered: HashMap<Cow<'a, str>, usize>,
    /// Results since the last message that found no call.
    early: HashMap<Cow<'a, str>, VecDeque<usize>>,
}

impl<'a> Pairing<'a> {
    pub(super) fn new(items: usize) -> Self {
        Self {
            blocks: Vec::with_capacity(items),
            calls: Vec::new(),
            fates: vec![Fate::First; items],
            open: None,
            waiting: HashMap::new(),
            answered: HashMap::new(),
            early: HashMap::new(),
        }
    }

    /// Takes the next item that is sent.
    pub(super) fn read(&mut self, index: usize, item: &Item<'a>, role: &Role) {
        match role {
            Role::Message => {
                self.open = None;
                self.early.clear();
                self.blocks.push(Block::Message(index));
            }
            // Details of the thinking may come last: what only carries them goes
            // with the text before it, which a call may still follow.
            Role::Reasoning if self.says_something() && empty::thought(item) => {
                self.answer(|answer| answer.reasoning.push(index));
            }
            Role::Reasoning => {
                self.end_finished_text();
                self.answer(|answer| answer.reasoning.push(index));
            }
            Role::Text => {
                self.end_finished_text();
                self.answer(|answer| answer.text.push(index));
            }
            Role::Call => self.call(index, item),
            Role::Result => self.result(index, item),
            Role::Drop(_) => {}
        }
    }

    /// Gives calls that have no result of their own the one that came early.
    pub(super) fn settle(&mut self) {
        for (number, call) in self.calls.iter_mut().enumerate() {
            let Some(early) = call.early else {
                continue;
            };
            let fate = if call.result.is_none() {
                call.result = Some(early);
                call.moved = true;
                Fate::First
            } else {
                Fate::Again(number)
            };
            if let Some(slot) = self.fates.get_mut(early) {
                *slot = fate;
            }
        }
    }

    /// A text without calls is complete once something else than a call
    /// follows it.
    fn end_finished_text(&mut self) {
        if self
            .open_answer()
            .is_some_and(|answer| answer.calls.is_empty() && !answer.text.is_empty())
        {
            self.open = None;
        }
    }

    fn says_something(&self) -> bool {
        self.open_answer()
            .is_some_and(|answer| !answer.text.is_empty())
    }

    fn open_answer(&self) -> Option<&Answer> {
        match self.blocks.get(self.open?)? {
            Block::Answer(answer) => Some(answer),
            Block::Message(_) | Block::Result(_) => None,
        }
    }

    /// Adds to the open answer, or to a new one; returns its block.
    fn answer(&mut self, add: impl FnOnce(&mut Answer)) -> usize {
        if self.open_answer().is_none() {
            self.blocks.push(Block::Answer(Answer::default()));
            self.open = None;
        }
        let at = self.open.unwrap_or(self.blocks.len() - 1);
        self.open = Some(at);
        if let Some(Block::Answer(answer)) = self.blocks.get_mut(at) {
            add(answer);
        }
        at
    }

    fn call(&mut self, index: usize, item: &Item<'a>) {
        let block = self.answer(|answer| answer.calls.push(index));
        let number = self.calls.len();
        let mut early = None;
        for key in keys(item) {
            early = early.or_else(|| self.early.get_mut(&key)?.pop_front());
            let rounds = self.waiting.entry(key).or_default();
            match rounds.last_mut() {
                Some((at, queue)) if *at == block => queue.push_back(number),
                Some(_) | None => rounds.push((block, VecDeque::from([number]))),
            }
        }
        self.calls.push(Call {
            item: index,
            result: None,
            moved: false,
            answer: block,
            early,
        });
    }

    fn result(&mut self, index: usize, item: &Item<'a>) {
        let found = keys(item).find_map(|key| Some((self.take(&key)?, key)));
        if let Some((number, key)) = found {
            self.answered.insert(key, number);
            self.give(number, index);
            return;
        }
        self.open = None;
        self.blocks.push(Block::Result(index));
        let again = keys(item).find_map(|key| self.answered.get(&key).copied());
        let fate = again.map_or(Fate::Orphan, Fate::Again);
        if again.is_none()
            && let Some(key) = keys(item).last()
        {
            self.early.entry(key).or_default().push_back(index);
        }
        if let Some(slot) = self.fates.get_mut(index) {
            *slot = fate;
        }
    }

    /// The call that waits for a result with this id: of the latest answer that
    /// has one, the first.
    fn take(&mut self, key: &str) -> Option<usize> {
        let rounds = self.waiting.get_mut(key)?;
        while let Some((_, queue)) = rounds.last_mut() {
            while let Some(number) = queue.pop_front() {
                // A call without an id of its own waits in two places.
                if self
                    .calls
                    .get(number)
                    .is_some_and(|call| call.result.is_none())
                {
                    return Some(number);
                }
            }
            rounds.pop();
        }
        None
    }

    fn give(&mut self, number: usize, result: usize) {
        let Some(call) = self.calls.get_mut(number) else {
            return;
        };
        call.result = Some(result);
        let answer = call.answer;
        let thoughts = self
            .open_answer()
            .is_some_and(|open| open.calls.is_empty() && open.text.is_empty());
        if !thoughts {
            self.open = None;
        } else if self.open == self.blocks.len().checked_sub(1) && self.open == Some(answer + 1) {
            // Thoughts among the results of an answer are that answer's: there
            // is no other that they could precede.
            if let (Some(Block::Answer(thoughts)), Some(Block::Answer(answer))) =
                (self.blocks.pop(), self.blocks.get_mut(answer))
            {
                answer.reasoning.extend(thoughts.reasoning);
            }
            self.open = None;
        }
        let last = self.blocks.len().checked_sub(1);
        if let Some(call) = self.calls.get_mut(number) {
            call.moved = last != Some(answer);
        }
    }
}

/// The ids under which a call waits and a result looks for its call: the call
/// id, else the item's own id, else none.
fn keys<'a>(item: &Item<'a>) -> impl Iterator<Item = Cow<'a, str>> + use<'a> {
    let named = item.explicit_call_id();
    let rest = named.is_none().then(|| {
        let id = item.id().filter(|id| !id.is_empty());
        id.into_iter().chain([Cow::Borrowed("")])
    });
    named.into_iter().chain(rest.into_iter().flatten())
}
