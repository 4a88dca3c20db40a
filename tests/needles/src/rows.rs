//! Records in rows: CSV, JSON and SQL.

use serde_json::{Value, json};

use crate::{
    kind::Generator,
    scene::{Needle, NeedleSort, Scene},
    words,
};

/// One sale. The fields that a needle changes are public to the formats.
struct Sale {
    id: usize,
    day: String,
    city: String,
    product: String,
    buyer: String,
    amount: usize,
    cents: usize,
    state: String,
    note: String,
}

impl Sale {
    fn usual(scene: &mut Scene, line: usize) -> Self {
        let note = match scene.dice.below(12) {
            0 => "gift wrap".into(),
            1 => "second delivery attempt failed, left with neighbour".into(),
            2 => format!("coupon {}", scene.dice.hex(4)),
            _ => String::new(),
        };
        let state = scene
            .dice
            .skewed(&["paid", "shipped", "delivered", "returned", "on hold"]);
        let state = state.to_owned();
        Self {
            id: 200_000 + 3 * line + scene.dice.below(2),
            day: format!("2026-0{}-{:02}", 1 + line / 900 % 9, 1 + line / 30 % 28),
            city: scene.dice.skewed(&words::CITIES).to_owned(),
            product: scene.dice.skewed(&words::PRODUCTS).to_owned(),
            buyer: scene.user(),
            amount: scene.number(1, 6),
            cents: scene.number(400, 19_900),
            state,
            note,
        }
    }

    /// A sale with something in it that no other has, and the strings that tell it.
    fn telling(scene: &mut Scene, sort: NeedleSort, line: usize) -> (Self, Needle) {
        let mut sale = Self::usual(scene, line);
        sale.note = String::new();
        // Between the ids of two usual rows.
        sale.id = 200_000 + 3 * line + 2;
        let id = sale.id.to_string();
        let needle = |evidence: &str| Needle::new(String::new(), [&id, evidence], &id);
        match (sort, scene.dice.below(4)) {
            (NeedleSort::Failure, 0 | 1) => {
                let states = ["chargeback", "declined by the bank", "lost by the carrier"];
                let state = scene.dice.pick(&states).to_owned();
                sale.state.clone_from(&state);
                (sale, needle(&state))
            }
            (NeedleSort::Odd, 0) => {
                sale.cents = scene.number(100_000_000, 900_000_000);
                let whole = (sale.cents / 100).to_string();
                (sale, needle(&whole))
            }
            (NeedleSort::Odd, 1) => {
                sale.amount = scene.number(4_000_000, 9_999_999);
                let amount = sale.amount.to_string();
                (sale, needle(&amount))
            }
            (NeedleSort::Odd, 2) => {
                let states = ["paid in shells", "barter", "sent by pigeon", "museum loan"];
                let state = scene.dice.pick(&states).to_owned();
                sale.state.clone_from(&state);
                (sale, needle(&state))
            }
            _ => {
                let phrase = scene.phrase(sort);
                sale.note.clone_from(&phrase.text);
                let needle = phrase.within(String::new());
                (sale, needle)
            }
        }
    }

    fn price(&self) -> String {
        format!("{}.{:02}", self.cents / 100, self.cents % 100)
    }

    fn csv(&self) -> String {
        let note = if self.note.contains(',') {
            format!("\"{}\"", self.note)
        } else {
            self.note.clone()
        };
        format!(
            "{},{},{},{},{},{},{},{},{note}",
            self.id,
            self.day,
            self.city,
            self.product,
            self.buyer,
            self.amount,
            self.price(),
            self.state,
        )
    }

    fn json(&self) -> Value {
        let mut row = json!({"id": self.id, "day": self.day, "city": self.city, "product": self.product,
            "buyer": {"name": self.buyer, "tier": self.amount % 3}, "amount": self.amount, "price": self.price(), "state": self.state});
        if let (false, Some(row)) = (self.note.is_empty(), row.as_object_mut()) {
            row.insert("note".into(), json!(self.note));
        }
        row
    }

    fn sql(&self) -> String {
        format!(
            "INSERT INTO sales VALUES ({}, '{}', '{}', '{}', '{}', {}, {}, '{}', {});",
            self.id,
            self.day,
            self.city,
            self.product,
            self.buyer,
            self.amount,
            self.price(),
            self.state,
            if self.note.is_empty() {
                "NULL".into()
            } else {
                format!("'{}'", self.note.replace('\'', "''"))
            }
        )
    }
}

/// How rows are written.
#[derive(Clone, Copy)]
pub(crate) enum RowForm {
    Csv,
    /// An array, each element on a line.
    Array,
    /// An array in indented lines.
    Pretty,
    /// An array without line ends.
    Compact,
    Lines,
    Sql,
}

/// Sales in rows.
pub(crate) struct Rows {
    form: RowForm,
}

impl Rows {
    pub(crate) fn new(form: RowForm) -> Self {
        Self { form }
    }

    /// An array in one of three layouts.
    pub(crate) fn array(scene: &mut Scene) -> Self {
        Self::new(match scene.dice.below(3) {
            0 => RowForm::Array,
            1 => RowForm::Pretty,
            _ => RowForm::Compact,
        })
    }

    fn written(&self, sale: &Sale) -> String {
        match self.form {
            RowForm::Csv => sale.csv(),
            RowForm::Sql => sale.sql(),
            RowForm::Array | RowForm::Compact | RowForm::Lines => sale.json().to_string(),
            RowForm::Pretty => {
                let text = serde_json::to_string_pretty(&sale.json()).unwrap_or_default();
                format!("  {}", text.replace('\n', "\n  "))
            }
        }
    }
}

impl Generator for Rows {
    fn head(&mut self, _: &mut Scene) -> String {
        match self.form {
            RowForm::Csv => "id,day,city,product,buyer,amount,price,state,note\n".into(),
            RowForm::Array | RowForm::Pretty => "[\n".into(),
            RowForm::Compact => "[".into(),
            RowForm::Lines => String::new(),
            RowForm::Sql => "-- dump of the database shop\nCREATE TABLE sales (id INTEGER PRIMARY KEY, day DATE, city TEXT, product TEXT, buyer TEXT, amount INTEGER, price NUMERIC, state TEXT, note TEXT);\nBEGIN;\n".into(),
        }
    }

    fn unit(&mut self, scene: &mut Scene, line: usize) -> String {
        let mut sale = Sale::usual(scene, line);
        if scene.is_one_off(120) {
            let user = scene.user();
            sale.note = match scene.dice.below(3) {
                0 => format!("leave at the door of {user}"),
                1 => "ring twice".into(),
                _ => format!("birthday card for {user}"),
            };
        }
        self.written(&sale)
    }

    fn between(&self) -> &'static str {
        match self.form {
            RowForm::Csv | RowForm::Lines | RowForm::Sql => "\n",
            RowForm::Array | RowForm::Pretty => ",\n",
            RowForm::Compact => ",",
        }
    }

    fn tail(&mut self, _: &mut Scene) -> String {
        match self.form {
            RowForm::Csv | RowForm::Lines => "\n",
            RowForm::Array | RowForm::Pretty => "\n]\n",
            RowForm::Compact => "]",
            RowForm::Sql => "\nCOMMIT;\n",
        }
        .into()
    }

    fn needle(&mut self, scene: &mut Scene, sort: NeedleSort, line: usize) -> Needle {
        let (sale, mut needle) = Sale::telling(scene, sort, line);
        needle.text = self.written(&sale);
        if matches!(self.form, RowForm::Sql) {
            for evidence in &mut needle.evidence {
                *evidence = evidence.replace('\'', "''");
            }
        }
        needle
    }

    fn command(&mut self, _: &mut Scene) -> String {
        match self.form {
            RowForm::Csv => "cat data/sales.csv",
            RowForm::Array | RowForm::Pretty | RowForm::Compact => {
                "curl -s http://127.0.0.1:8080/sales"
            }
            RowForm::Lines => "cat data/sales.jsonl",
            RowForm::Sql => "cat backup/shop.sql",
        }
        .into()
    }
}
