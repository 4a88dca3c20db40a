//! Cases in which cost must follow the size of the input. The program `respondent-linear` counts
//! the instructions of each at one size and at four times that size.

mod forms;
mod inputs;
mod planted;
mod series;
mod texts;
mod work;

use std::hint::black_box;

use forms::FORMS;
use series::SERIES;
use texts::Pattern;

/// One kind of input, and what is done with it.
pub struct Case {
    /// `work: input`, unique.
    pub name: String,
    /// The first size, in bytes or elements.
    pub size: usize,
    make: Box<dyn Fn(usize) -> Vec<u8>>,
    work: fn(&[u8]),
}

impl Case {
    /// The input of this size.
    pub fn input(&self, size: usize) -> Vec<u8> {
        (self.make)(size)
    }

    /// Does the work, whose instructions nobody counts.
    pub fn warm_up(&self) {
        (self.work)(&self.input(self.size));
    }

    /// Does the work, whose instructions callgrind counts.
    pub fn measure(&self, size: usize) {
        respondent_linear_measured(self.work, &self.input(size));
    }
}

/// The function whose instructions are counted, as callgrind names it.
pub const MEASURED: &str = "hostile::linear::respondent_linear_measured";

#[inline(never)]
fn respondent_linear_measured(work: fn(&[u8]), input: &[u8]) {
    work(black_box(input));
    // What follows the call makes this function return after it, which callgrind has to see.
    black_box(input);
}

/// All cases. Each form gets one of `parts` parts of all pairs of fragments.
pub fn cases(parts: usize) -> Vec<Case> {
    let of_texts = FORMS.iter().enumerate().flat_map(move |(number, form)| {
        let pairs = Pattern::any_two(number, parts);
        Pattern::all().chain(pairs).map(move |pattern| Case {
            name: format!("{}: {pattern:?}", form.name),
            size: form.size,
            make: Box::new(move |bytes| (form.wrap)(&pattern.text(bytes))),
            work: form.work,
        })
    });
    let of_series = SERIES.iter().map(|series| Case {
        name: series.name.to_owned(),
        size: series.size,
        make: Box::new(|count| (series.make)(count).into_bytes()),
        work: series.work,
    });
    of_texts.chain(of_series).collect()
}

/// Cases that show whether the check notices growth: one that is linear, and one that is not.
pub fn planted() -> Vec<Case> {
    let case = |name: &str, work| Case {
        name: name.to_owned(),
        size: 1 << 8,
        make: Box::new(|bytes| vec![b'a'; bytes]),
        work,
    };
    vec![
        case("planted: a linear scanner", planted::linear),
        case(PLANTED_QUADRATIC, planted::quadratic),
    ]
}

/// The name of the case of [`planted`] that must fail.
pub const PLANTED_QUADRATIC: &str = "planted: a quadratic scanner";
