//! Tokens by descending value, sorted only as far as somebody looks.
//!
//! A vocabulary has up to 262,144 tokens and a step looks at a few dozen of them. The ranking keeps packed keys whose
//! ascending order is the contract's order (descending value, ascending id among equals). On the first look it deals
//! them into groups of falling value, two passes over the keys, and from then on sorts one group after the other as
//! ranks are asked for. What any rank holds is the same as after a full sort; only the work differs.

/// How many groups a large ranking is dealt into: about a hundred keys each for the largest vocabularies.
const N_GROUPS: usize = 2048;
/// Up to this many keys, sorting costs less than dealing.
const SORTED_AT_ONCE: usize = 2048;
/// Groups divide the values down to this far below the best one, everything lower falling into the last: a logit 40
/// lower has 4e-18 of the best one's weight.
const SPAN: f32 = 40.0;

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

    /// Whether this one ranks no lower than the other.
    pub(crate) fn is_at_least(self, other: Ranked) -> bool {
        self.key() <= other.key()
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
    /// Where each group ends in `keys`; groups before `n_grouped` are sorted.
    group_ends: Vec<usize>,
    n_grouped: usize,
    /// Scratch for dealing.
    dealt: Vec<u64>,
}

impl Ranking {
    /// Starts over with these tokens, given by ascending id.
    pub(crate) fn fill(&mut self, tokens: impl Iterator<Item = Ranked>) {
        self.keys.clear();
        self.keys.extend(tokens.map(Ranked::key));
        self.n_sorted = 0;
        self.by_id = true;
        self.ungroup();
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
        if n > self.n_sorted && self.n_sorted == 0 {
            self.by_id = false;
            self.ungroup();
            self.keys.select_nth_unstable(n - 1);
        } else if n > self.n_sorted {
            self.sort_through(n - 1);
        }
        self.keys.truncate(n);
        self.n_sorted = self.n_sorted.min(n);
    }

    /// Keeps tokens whose value is at least `value`, but not fewer than the best `min_keep`.
    pub(crate) fn keep_at_least(&mut self, value: f32, min_keep: usize) {
        let worst = Ranked { value, id: u32::MAX };
        if self.keys.iter().filter(|key| **key <= worst.key()).count() < min_keep {
            self.keep_best(min_keep);
        } else {
            self.keep_if(|token| token.is_at_least(worst));
        }
    }

    /// Keeps tokens by a condition, without moving them: an order by id survives.
    pub(crate) fn keep_if(&mut self, condition: impl Fn(Ranked) -> bool) {
        let keep = |key: &u64| condition(Ranked::from_key(*key));
        self.n_sorted = self.keys[..self.n_sorted].iter().filter(|key| keep(key)).count();
        self.keys.retain(keep);
        self.ungroup();
    }

    /// Drops the best `n`.
    pub(crate) fn drop_best(&mut self, n: usize) {
        let n = n.min(self.keys.len());
        if n > self.n_sorted {
            self.sort_through(n - 1);
        }
        self.keys.drain(..n);
        self.n_sorted -= n;
        self.group_ends.iter_mut().for_each(|end| *end = end.saturating_sub(n));
    }

    /// The tokens by ascending id: the fixed order in which sums over candidates are taken.
    pub(crate) fn tokens_by_id(&mut self) -> impl Iterator<Item = Ranked> {
        if !self.by_id {
            self.keys.sort_unstable_by_key(|key| *key as u32);
            self.n_sorted = 0;
            self.by_id = true;
            self.ungroup();
        }
        self.keys.iter().map(|key| Ranked::from_key(*key))
    }

    fn sort_through(&mut self, rank: usize) {
        while self.n_sorted <= rank && self.n_sorted < self.keys.len() {
            self.by_id = false;
            if self.n_grouped == self.group_ends.len() {
                self.deal();
            }
            let end = self.group_ends[self.n_grouped];
            self.keys[self.n_sorted..end].sort_unstable();
            self.n_sorted = end;
            self.n_grouped += 1;
        }
    }

    fn ungroup(&mut self) {
        self.group_ends.clear();
        self.n_grouped = 0;
    }

    /// Deals the keys that are not sorted into groups, each better than the next.
    fn deal(&mut self) {
        self.ungroup();
        let rest = &mut self.keys[self.n_sorted..];
        let best = rest.iter().min().map_or(0.0, |key| Ranked::from_key(*key).value);
        let worst = rest.iter().max().map_or(0.0, |key| Ranked::from_key(*key).value);
        let span = (best - worst).min(SPAN);
        if rest.len() <= SORTED_AT_ONCE || span == 0.0 {
            self.group_ends.push(self.keys.len());
            return;
        }
        // Subtraction, multiplication and the cast are monotone, so a lower value never lands in an earlier group. The
        // cast saturates.
        let scale = (N_GROUPS - 1) as f32 / span;
        let group = |key: u64| (((best - Ranked::from_key(key).value) * scale) as usize).min(N_GROUPS - 1);
        self.group_ends.resize(N_GROUPS, 0);
        for key in rest.iter() {
            self.group_ends[group(*key)] += 1;
        }
        let mut start = 0;
        for end in &mut self.group_ends {
            start += std::mem::replace(end, start);
        }
        self.dealt.resize(rest.len(), 0);
        for key in rest.iter() {
            let place = &mut self.group_ends[group(*key)];
            self.dealt[*place] = *key;
            *place += 1;
        }
        rest.copy_from_slice(&self.dealt);
        self.group_ends.iter_mut().for_each(|end| *end += self.n_sorted);
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

    /// Many ties or none, outliers, and sizes on both sides of what is sorted at once.
    fn values() -> impl Strategy<Value = Vec<f32>> {
        let tied = prop_oneof![
            20 => (-6i8..6).prop_map(f32::from),
            1 => Just(-0.0),
            1 => Just(f32::MAX),
            1 => Just(f32::MIN),
            1 => Just(f32::MIN_POSITIVE / 4.0),
        ];
        prop_oneof![
            proptest::collection::vec(tied, 0..6000),
            proptest::collection::vec(-6f32..6.0, 0..6000),
            proptest::collection::vec(-90f32..6.0, 0..6000),
        ]
    }

    #[derive(Debug, Clone)]
    enum Op {
        Look(usize),
        KeepBest(usize),
        KeepAtLeast(f32, usize),
        DropBest(usize),
        ById,
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            3 => (0usize..400).prop_map(Op::Look),
            1 => (0usize..6000).prop_map(Op::Look),
            1 => (1usize..6000).prop_map(Op::KeepBest),
            1 => (-9f32..6.0, 1usize..300).prop_map(|(value, n)| Op::KeepAtLeast(value, n)),
            1 => (-6i8..6, 1usize..300).prop_map(|(value, n)| Op::KeepAtLeast(value.into(), n)),
            1 => (0usize..300).prop_map(Op::DropBest),
            1 => Just(Op::ById),
        ];
        proptest::collection::vec(op, 0..6)
    }

    proptest! {
        /// Whatever is asked of a ranking in whatever order, it answers as a sorted list does.
        #[test]
        fn r73_equals_a_sorted_list(values in values(), ops in ops()) {
            let mut list = sorted(&values);
            let mut ranking = filled(&values);
            for op in ops {
                match op {
                    Op::Look(rank) => prop_assert_eq!(ranking.at(rank), list.get(rank).copied()),
                    Op::KeepBest(n) => {
                        ranking.keep_best(n);
                        list.truncate(n);
                    }
                    Op::KeepAtLeast(value, min_keep) => {
                        ranking.keep_at_least(value, min_keep);
                        let n = list.iter().filter(|token| token.value >= value).count();
                        list.truncate(n.max(min_keep));
                    }
                    Op::DropBest(n) => {
                        ranking.drop_best(n);
                        list.drain(..n.min(list.len()));
                    }
                    Op::ById => {
                        let mut by_id = list.clone();
                        by_id.sort_by_key(|token| token.id);
                        prop_assert_eq!(ranking.tokens_by_id().collect::<Vec<_>>(), by_id);
                    }
                }
                prop_assert_eq!(ranking.len(), list.len());
                prop_assert_eq!(ranking.best_value(), list.first().map_or(f32::NEG_INFINITY, |t| t.value));
            }
            for (rank, token) in list.iter().enumerate() {
                prop_assert_eq!(ranking.at(rank), Some(*token));
            }
            prop_assert_eq!(ranking.at(list.len()), None);
        }
    }
}
