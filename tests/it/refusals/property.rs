//! Rules drawn at random.
