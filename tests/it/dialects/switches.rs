//! Dialects: one switch at a time, or any of them together.
use kit::player::Dialect;
use kit::player::dialect::{
    Arguments, ErrorForm, Finish, Form, Framing, Ids, Index, LineEnd, Names, Reasoning, UsagePlace,
};
use proptest::prelude::*;

const REASONING: [Reasoning; 8] = [
    Reasoning::ReasoningContent,
    Reasoning::Reasoning,
    Reasoning::BothNames,
    Reasoning::ReasoningDetails,
    Reasoning::ReasoningAndDetails,
    Reasoning::ContentList,
    Reasoning::ThinkTags,
    Reasoning::UnopenedThink,
];
const IDS: [Ids; 6] = [
    Ids::First,
    Ids::Missing,
    Ids::Empty,
    Ids::EmptyLater,
    Ids::Late,
    Ids::Repeated,
];
const INDEX: [Index; 4] = [Index::Counted, Index::FromOne, Index::Zero, Index::Missing];
const NAMES: [Names; 4] = [
    Names::First,
    Names::Late,
    Names::Repeated,
    Names::EmptyLater,
];
const ARGUMENTS: [Arguments; 4] = [
    Arguments::Pieces,
    Arguments::PiecesAtOnce,
    Arguments::Whole,
    Arguments::Object,
];
const USAGE: [UsagePlace; 6] = [
    UsagePlace::Apart,
    UsagePlace::OnFinish,
    UsagePlace::InChoice,
    UsagePlace::XGroq,
    UsagePlace::EveryChunk,
    UsagePlace::Nowhere,
];
const FINISH: [Finish; 7] = [
    Finish::NullBefore,
    Finish::AbsentBefore,
    Finish::EmptyBefore,
    Finish::Repeated,
    Finish::StopAlways,
    Finish::Unknown,
    Finish::Missing,
];
const FORMS: [Form; 3] = [Form::Asked, Form::Document, Form::Events];

pub fn error_forms() -> [ErrorForm; 7] {
    [
        ErrorForm::Chunk,
        ErrorForm::InChunk,
        ErrorForm::Event,
        ErrorForm::List,
        ErrorForm::Bare,
        ErrorForm::Document,
        ErrorForm::Html,
    ]
}

/// The plain dialect, and every other value of each switch.
pub fn alone() -> Vec<Dialect> {
    let mut all = vec![Dialect::default()];
    let mut with = |change: &dyn Fn(&mut Dialect)| {
        let mut dialect = Dialect::default();
        change(&mut dialect);
        all.push(dialect);
    };
    for value in REASONING {
        with(&|dialect| dialect.reasoning = value);
    }
    for value in IDS {
        with(&|dialect| dialect.ids = value);
    }
    for value in INDEX {
        with(&|dialect| dialect.index = value);
    }
    for value in NAMES {
        with(&|dialect| dialect.names = value);
    }
    for value in ARGUMENTS {
        with(&|dialect| dialect.arguments = value);
    }
    for value in USAGE {
        with(&|dialect| dialect.usage = value);
    }
    for value in FINISH {
        with(&|dialect| dialect.finish = value);
    }
    for value in FORMS {
        with(&|dialect| dialect.form = value);
    }
    for value in [LineEnd::CrLf, LineEnd::Cr] {
        with(&|dialect| dialect.framing.line_end = value);
    }
    with(&|dialect| dialect.interleaved = true);
    with(&|dialect| dialect.role_everywhere = true);
    with(&|dialect| dialect.nulls = true);
    with(&|dialect| dialect.chunk_without_choices = true);
    with(&|dialect| dialect.framing.bom = true);
    with(&|dialect| dialect.framing.tight = true);
    with(&|dialect| dialect.framing.comments = true);
    with(&|dialect| dialect.framing.named = true);
    with(&|dialect| dialect.framing.two_lines = true);
    with(&|dialect| dialect.framing.no_done = true);
    // A call without id and index, as its name alone tells.
    with(&|dialect| {
        dialect.ids = Ids::Missing;
        dialect.index = Index::Missing;
    });
    all.into_iter().map(tells_calls_apart).collect()
}

/// Any dialect in which calls can be told apart.
pub fn some() -> impl Strategy<Value = Dialect> {
    let select = prop::sample::select::<Reasoning>;
    let call_form = (
        prop::sample::select(IDS.to_vec()),
        prop::sample::select(INDEX.to_vec()),
        prop::sample::select(NAMES.to_vec()),
        prop::sample::select(ARGUMENTS.to_vec()),
        any::<bool>(),
    );
    let places = (
        select(REASONING.to_vec()),
        prop::sample::select(USAGE.to_vec()),
        prop::sample::select(FINISH.to_vec()),
        prop::sample::select(FORMS.to_vec()),
    );
    let line_end = prop::sample::select(vec![LineEnd::Lf, LineEnd::CrLf, LineEnd::Cr]);
    (call_form, places, line_end, any::<[bool; 10]>()).prop_map(|(calls, places, line_end, on)| {
        let (ids, index, names, arguments, interleaved) = calls;
        let (reasoning, usage, finish, form) = places;
        let [
            role_everywhere,
            nulls,
            chunk_without_choices,
            mislabelled,
            bom,
            tight,
            comments,
            named,
            two_lines,
            no_done,
        ] = on;
        tells_calls_apart(Dialect {
            reasoning,
            ids,
            index,
            names,
            arguments,
            interleaved,
            usage,
            finish,
            role_everywhere,
            nulls,
            chunk_without_choices,
            framing: Framing {
                line_end,
                bom,
                tight,
                comments,
                named,
                two_lines,
                no_done,
            },
            form,
            mislabelled,
            error: ErrorForm::Chunk,
            error_done: false,
        })
    })
}

/// Takes back what would leave nothing to tell one call from the next: where the index does not
/// say it, a piece with a new id or with a name begins a call, and calls come one after the other.
/// An id that comes with a second name is always that of another call.
fn tells_calls_apart(mut dialect: Dialect) -> Dialect {
    let whole = matches!(dialect.arguments, Arguments::Whole | Arguments::Object);
    if !whole && dialect.ids == Ids::Late && dialect.names == Names::Repeated {
        dialect.names = Names::First;
    }
    // Calls stand in the order of their names.
    dialect.interleaved &= dialect.names != Names::Late;
    match dialect.index {
        Index::Counted | Index::FromOne => return dialect,
        Index::Zero => {
            dialect.interleaved = false;
            let late = !whole && dialect.ids == Ids::Late;
            if late || matches!(dialect.ids, Ids::Missing | Ids::Empty) {
                dialect.ids = Ids::First;
            }
        }
        Index::Missing => {
            dialect.interleaved &= dialect.ids == Ids::Repeated;
            if !whole && dialect.ids == Ids::Late {
                dialect.ids = Ids::First;
            }
            if !whole && dialect.ids != Ids::Repeated {
                dialect.names = Names::First;
            }
        }
    }
    dialect
}
