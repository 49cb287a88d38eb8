//! Tokens by descending value, sorted only as far as somebody looks.
//!
//! A vocabulary has up to 262,144 tokens and a step looks at a few dozen of them. The ranking keeps packed keys whose
//! ascending order is the contract's order (descending value, ascending id among equals), selects the next run of the
//! best ones when asked for a rank beyond what is sorted, and leaves the rest in a heap. What any rank holds is the
//! same as after a full sort; only the work differs.

/// How many keys the first look sorts.
const FIRST_RUN: usize = 128;
/// How much longer the sorted part becomes with every further look: few selections even if all is needed in the end.
const RUN_GROWTH: usize = 8;

/// A token and the value it is ranked by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ranked {
    pub(crate) value: f32,
    pub(crate) id: u32,
}

impl Ranked {
    /// A key whose ascending order is descending value, then ascending id.
    fn key(self) -> u64 {
        // Adding +0 turns -0 into +0: the two are equal, so ids must decide between them.
        let bits = (self.value + 0.0).to_bits();
        let ascending = if bits >> 31 == 0 { bits | 0x8000_0000 } else { !bits };
        u64::from(!ascending) << 32 | u64::from(self.id)
    }

    fn from_key(key: u64) -> Ranked {
        let ascending = !((key >> 32) as u32);
        let bits = if ascending >> 31 == 1 { ascending & 0x7fff_ffff } else { !ascending };
        Ranked { value: f32::from_bits(bits), id: key as u32 }
    }
}

/// See the module's head.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ranking {
    keys: Vec<u64>,
    /// `keys[..n_sorted]` are the best, in order; what follows is worse, in any order.
    n_sorted: usize,
    /// Whether the keys still stand in the order they came, ascending by id.
    by_id: bool,
}

impl Ranking {
    /// Starts over with these tokens, given by ascending id.
    pub(crate) fn fill(&mut self, tokens: impl Iterator<Item = Ranked>) {
        self.keys.clear();
        self.keys.extend(tokens.map(Ranked::key));
        self.n_sorted = 0;
        self.by_id = true;
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The token at a rank, 0 being the best.
    pub(crate) fn at(&mut self, rank: usize) -> Option<Ranked> {
        if rank >= self.n_sorted {
            self.sort_through(rank);
        }
        self.keys.get(rank).copied().map(Ranked::from_key)
    }

    /// The best value, without moving anything.
    pub(crate) fn best_value(&self) -> f32 {
        let best = if self.n_sorted > 0 { self.keys.first() } else { self.keys.iter().min() };
        best.map_or(f32::NEG_INFINITY, |key| Ranked::from_key(*key).value)
    }

    /// Keeps the best `n`.
    pub(crate) fn keep_best(&mut self, n: usize) {
        if n >= self.keys.len() {
            return;
        }
        if n > self.n_sorted {
            self.by_id = false;
            self.keys[self.n_sorted..].select_nth_unstable(n - 1 - self.n_sorted);
        }
        self.keys.truncate(n);
        self.n_sorted = self.n_sorted.min(n);
    }

    /// Keeps tokens whose value is at least `value`, but not fewer than the best `min_keep`.
    pub(crate) fn keep_at_least(&mut self, value: f32, min_keep: usize) {
        let worst = Ranked { value, id: u32::MAX }.key();
        let n = self.keys.iter().filter(|key| **key <= worst).count();
        if n <= min_keep {
            self.keep_best(min_keep);
        } else if n <= self.n_sorted {
            self.keep_best(n);
        } else {
            // Everything sorted stays; the rest is sifted where it stands, so an order by id survives.
            self.keys.retain(|key| *key <= worst);
        }
    }

    /// Drops the best `n`.
    pub(crate) fn drop_best(&mut self, n: usize) {
        let n = n.min(self.keys.len());
        if n > self.n_sorted {
            self.sort_through(n - 1);
        }
        self.keys.drain(..n);
        self.n_sorted -= n;
    }

    /// The tokens by ascending id: the fixed order in which sums over candidates are taken.
    pub(crate) fn tokens_by_id(&mut self) -> impl Iterator<Item = Ranked> {
        if !self.by_id {
            self.keys.sort_unstable_by_key(|key| *key as u32);
            self.n_sorted = 0;
            self.by_id = true;
        }
        self.keys.iter().map(|key| Ranked::from_key(*key))
    }

    fn sort_through(&mut self, rank: usize) {
        let end = (rank + 1).max(FIRST_RUN).max(self.n_sorted * RUN_GROWTH).min(self.keys.len());
        if end <= self.n_sorted {
            return;
        }
        self.by_id = false;
        let rest = &mut self.keys[self.n_sorted..];
        let run = end - self.n_sorted;
        if run < rest.len() {
            rest.select_nth_unstable(run - 1);
        }
        rest[..run].sort_unstable();
        self.n_sorted = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(values: &[f32]) -> Ranking {
        let mut ranking = Ranking::default();
        ranking.fill(values.iter().zip(0..).map(|(&value, id)| Ranked { value, id }));
        ranking
    }

    fn sorted(values: &[f32]) -> Vec<Ranked> {
        let mut all: Vec<_> = values.iter().zip(0..).map(|(&value, id)| Ranked { value, id }).collect();
        all.sort_by(|a, b| b.value.partial_cmp(&a.value).unwrap().then(a.id.cmp(&b.id)));
        all
    }

    /// Few distinct values, so ties are common; sizes on both sides of the run lengths.
    fn values() -> impl Strategy<Value = Vec<f32>> {
        let value = prop_oneof![
            (-6i8..6).prop_map(f32::from),
            Just(-0.0),
            Just(f32::MAX),
            Just(f32::MIN),
            Just(f32::MIN_POSITIVE / 4.0),
            -1e3f32..1e3,
        ];
        proptest::collection::vec(value, 0..3000)
    }

    proptest! {
        #[test]
        fn equals_a_full_sort(values in values(), looks in proptest::collection::vec(0usize..3000, 0..5)) {
            let all = sorted(&values);
            let mut ranking = filled(&values);
            for rank in looks {
                prop_assert_eq!(ranking.at(rank), all.get(rank).copied());
            }
            prop_assert_eq!(ranking.best_value(), all.first().map_or(f32::NEG_INFINITY, |t| t.value));
            for (rank, token) in all.iter().enumerate() {
                prop_assert_eq!(ranking.at(rank), Some(*token));
            }
        }

        #[test]
        fn cuts_equal_cuts_of_a_full_sort(
            values in values(), look in 0usize..300, best in 0usize..2000, bound in -6i8..6, min_keep in 1usize..50,
            dropped in 0usize..200,
        ) {
            let mut all = sorted(&values);
            let mut ranking = filled(&values);
            ranking.at(look);
            ranking.keep_at_least(f32::from(bound), min_keep);
            let above = all.iter().filter(|t| t.value >= f32::from(bound)).count();
            all.truncate(above.max(min_keep));
            ranking.keep_best(best);
            all.truncate(best);
            ranking.drop_best(dropped);
            all.drain(..dropped.min(all.len()));
            prop_assert_eq!(ranking.len(), all.len());
            let mut by_id = all.clone();
            by_id.sort_by_key(|t| t.id);
            prop_assert_eq!(ranking.tokens_by_id().collect::<Vec<_>>(), by_id);
            for (rank, token) in all.iter().enumerate() {
                prop_assert_eq!(ranking.at(rank), Some(*token));
            }
        }
    }
}
