//! Groups the items of a history into messages, answers and results, and finds out which
//! result belongs to which call.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use super::AnswerItems;
use super::empty;
use super::item_role::ItemRole;
use crate::turn::Item;

/// A call with the result that was found for it.
pub(super) struct PairedCall {
    pub(super) item: usize,
    /// The item that holds its result.
    pub(super) result: Option<usize>,
    /// Whether other items are between the call's answer and the result.
    pub(super) moved: bool,
    /// The block of the answer that made the call.
    answer: usize,
    /// How many blocks there were when the result came; 0 for one that came before its call.
    pub(super) blocks_before_result: usize,
    /// A result with the call's id that came before the call.
    early_result: Option<usize>,
}

/// A group of items. The blocks are in the order of the items.
pub(super) enum HistoryBlock {
    Message(usize),
    Answer(AnswerItems),
    /// A result for which no call was waiting when it came.
    Result(usize),
    /// What a tool on a server did.
    Told(usize),
}

/// How a result relates to the calls.
#[derive(Clone, Copy)]
pub(super) enum ResultMatch {
    /// It is the first result of its call. Also the value of items that are not results.
    First,
    /// The call with this number has another result.
    Repeated(usize),
    /// No call has its id.
    Orphan,
}

/// Reads the items in their order.
pub(super) struct Pairing<'a> {
    pub(super) blocks: Vec<HistoryBlock>,
    /// In the order of the items, and so of the answers.
    pub(super) calls: Vec<PairedCall>,
    /// One value for each item.
    pub(super) matches: Vec<ResultMatch>,
    /// The block of the answer that the next item may still belong to.
    open: Option<usize>,
    /// The numbers of the calls that wait for a result, by their ids and then by the
    /// block of their answer. Calls without an id have the empty id.
    waiting: HashMap<Cow<'a, str>, Vec<(usize, VecDeque<usize>)>>,
    /// The last call with this id that has a result.
    answered: HashMap<Cow<'a, str>, usize>,
    /// Results since the last message that belong to no call.
    early: HashMap<Cow<'a, str>, VecDeque<usize>>,
}

impl<'a> Pairing<'a> {
    pub(super) fn new(items: usize) -> Self {
        Self {
            blocks: Vec::with_capacity(items),
            calls: Vec::new(),
            matches: vec![ResultMatch::First; items],
            open: None,
            waiting: HashMap::new(),
            answered: HashMap::new(),
            early: HashMap::new(),
        }
    }

    /// Adds the next item that is sent.
    pub(super) fn add_item(&mut self, index: usize, item: &Item<'a>, role: &ItemRole) {
        match role {
            ItemRole::Message => {
                self.join_late_reasoning();
                self.open = None;
                self.early.clear();
                self.blocks.push(HistoryBlock::Message(index));
            }
            // Reasoning details may follow the text of their answer: a reasoning item
            // without readable text belongs to the text before it, and a call of the
            // same answer may still follow.
            ItemRole::Reasoning
                if self.open_answer_has_text() && empty::has_no_readable_reasoning(item) =>
            {
                self.extend_answer(|answer| answer.reasoning.push(index));
            }
            ItemRole::Reasoning => {
                self.close_finished_text();
                self.extend_answer(|answer| answer.reasoning.push(index));
            }
            ItemRole::Text => {
                self.close_finished_text();
                self.extend_answer(|answer| answer.text.push(index));
            }
            ItemRole::Call => self.add_call(index, item),
            ItemRole::Result => self.add_result(index, item),
            ItemRole::AnsweredCall => {
                self.add_call(index, item);
                self.assign_result(self.calls.len() - 1, index);
            }
            ItemRole::Told => self.add_told(index),
            ItemRole::Dropped(_) => {}
        }
    }

    /// Adds a message about a tool on a server. The reasoning before it belongs to the answer that
    /// follows.
    fn add_told(&mut self, index: usize) {
        let is_last = self.open.is_some() && self.open == self.blocks.len().checked_sub(1);
        let is_reasoning = self
            .open_answer()
            .is_some_and(|answer| answer.calls.is_empty() && answer.text.is_empty());
        let reasoning = (is_last && is_reasoning)
            .then(|| self.blocks.pop())
            .flatten();
        self.blocks.push(HistoryBlock::Told(index));
        self.open = reasoning.map(|reasoning| {
            self.blocks.push(reasoning);
            self.blocks.len() - 1
        });
    }

    /// Gives calls without a result the result that came before them.
    pub(super) fn match_early_results(&mut self) {
        self.join_late_reasoning();
        for (number, call) in self.calls.iter_mut().enumerate() {
            let Some(early) = call.early_result else {
                continue;
            };
            let result_match = if call.result.is_none() {
                call.result = Some(early);
                call.moved = true;
                ResultMatch::First
            } else {
                ResultMatch::Repeated(number)
            };
            if let Some(slot) = self.matches.get_mut(early) {
                *slot = result_match;
            }
        }
    }

    /// For each answer behind which messages come before a result of its calls: the block before
    /// which it is sent. Messages behind which the model answered stay where they are.
    pub(super) fn messages_before_results(&self) -> HashMap<usize, usize> {
        let mut until = HashMap::new();
        let is_answer = |block: &HistoryBlock| matches!(block, HistoryBlock::Answer(_));
        // The calls come in the order of their answers.
        let (mut answer, mut next_answer) = (None, 0);
        for call in &self.calls {
            let first = call.answer + 1;
            if answer != Some(call.answer) {
                answer = Some(call.answer);
                let behind = self.blocks.get(first..).unwrap_or_default();
                let messages = behind.iter().position(is_answer).unwrap_or(behind.len());
                next_answer = first + messages;
            }
            if (first + 1..=next_answer).contains(&call.blocks_before_result) {
                let last: &mut usize = until.entry(call.answer).or_default();
                *last = call.blocks_before_result.max(*last);
            }
        }
        until
    }

    /// Reasoning that comes after a text, and before neither text nor calls, belongs to the answer
    /// of that text: an item of it was written when its text had ended.
    fn join_late_reasoning(&mut self) {
        if self.open.is_none_or(|open| open + 1 != self.blocks.len()) {
            return;
        }
        if let [.., HistoryBlock::Answer(answer), HistoryBlock::Answer(late)] =
            self.blocks.as_mut_slice()
            && answer.calls.is_empty()
            && late.text.is_empty()
            && late.calls.is_empty()
        {
            answer.reasoning.append(&mut late.reasoning);
            self.blocks.pop();
            self.open = self.blocks.len().checked_sub(1);
        }
    }

    /// Closes an open answer that has text and no calls: only a call may extend it.
    fn close_finished_text(&mut self) {
        if self
            .open_answer()
            .is_some_and(|answer| answer.calls.is_empty() && !answer.text.is_empty())
        {
            self.open = None;
        }
    }

    fn open_answer_has_text(&self) -> bool {
        self.open_answer()
            .is_some_and(|answer| !answer.text.is_empty())
    }

    fn open_answer(&self) -> Option<&AnswerItems> {
        match self.blocks.get(self.open?)? {
            HistoryBlock::Answer(answer) => Some(answer),
            HistoryBlock::Message(_) | HistoryBlock::Result(_) | HistoryBlock::Told(_) => None,
        }
    }

    /// Adds to the open answer, or to a new one if none is open. Returns its block.
    fn extend_answer(&mut self, add: impl FnOnce(&mut AnswerItems)) -> usize {
        if self.open_answer().is_none() {
            self.blocks
                .push(HistoryBlock::Answer(AnswerItems::default()));
            self.open = None;
        }
        let at = self.open.unwrap_or(self.blocks.len() - 1);
        self.open = Some(at);
        if let Some(HistoryBlock::Answer(answer)) = self.blocks.get_mut(at) {
            add(answer);
        }
        at
    }

    fn add_call(&mut self, index: usize, item: &Item<'a>) {
        let block = self.extend_answer(|answer| answer.calls.push(index));
        let number = self.calls.len();
        let mut early_result = None;
        for id in lookup_ids(item) {
            early_result = early_result.or_else(|| self.early.get_mut(&id)?.pop_front());
            let rounds = self.waiting.entry(id).or_default();
            match rounds.last_mut() {
                Some((at, queue)) if *at == block => queue.push_back(number),
                Some(_) | None => rounds.push((block, VecDeque::from([number]))),
            }
        }
        self.calls.push(PairedCall {
            item: index,
            result: None,
            moved: false,
            answer: block,
            blocks_before_result: 0,
            early_result,
        });
    }

    fn add_result(&mut self, index: usize, item: &Item<'a>) {
        let found = lookup_ids(item).find_map(|id| Some((self.take_waiting_call(&id)?, id)));
        if let Some((number, id)) = found {
            self.answered.insert(id, number);
            self.assign_result(number, index);
            return;
        }
        self.open = None;
        self.blocks.push(HistoryBlock::Result(index));
        let answered = lookup_ids(item).find_map(|id| self.answered.get(&id).copied());
        let result_match = answered.map_or(ResultMatch::Orphan, ResultMatch::Repeated);
        if answered.is_none()
            && let Some(id) = lookup_ids(item).last()
        {
            self.early.entry(id).or_default().push_back(index);
        }
        if let Some(slot) = self.matches.get_mut(index) {
            *slot = result_match;
        }
    }

    /// The call that waits for a result with this id. If several calls share the id, it
    /// is the first one in the most recent answer that has one.
    fn take_waiting_call(&mut self, id: &str) -> Option<usize> {
        let rounds = self.waiting.get_mut(id)?;
        while let Some((_, queue)) = rounds.last_mut() {
            while let Some(number) = queue.pop_front() {
                // A call without a call id of its own is in two queues.
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

    fn assign_result(&mut self, number: usize, result: usize) {
        let Some(call) = self.calls.get_mut(number) else {
            return;
        };
        call.result = Some(result);
        let answer = call.answer;
        let only_reasoning = self
            .open_answer()
            .is_some_and(|open| open.calls.is_empty() && open.text.is_empty());
        if !only_reasoning {
            self.open = None;
        } else if self.open == self.blocks.len().checked_sub(1) && self.open == Some(answer + 1) {
            // Reasoning between the results of an answer belongs to that answer: there
            // is no other that it could precede.
            if let (Some(HistoryBlock::Answer(reasoning)), Some(HistoryBlock::Answer(answer))) =
                (self.blocks.pop(), self.blocks.get_mut(answer))
            {
                answer.reasoning.extend(reasoning.reasoning);
            }
            self.open = None;
        }
        let blocks = self.blocks.len();
        if let Some(call) = self.calls.get_mut(number) {
            call.moved = blocks.checked_sub(1) != Some(answer);
            call.blocks_before_result = blocks;
        }
    }
}

/// The ids by which a result finds its call: the call id; without one the item's own id
/// and then the empty id.
fn lookup_ids<'a>(item: &Item<'a>) -> impl Iterator<Item = Cow<'a, str>> + use<'a> {
    let call_id = item.explicit_call_id();
    let fallbacks = call_id.is_none().then(|| {
        let id = item.id().filter(|id| !id.is_empty());
        id.into_iter().chain([Cow::Borrowed("")])
    });
    call_id.into_iter().chain(fallbacks.into_iter().flatten())
}
