//! R73: the sampler, which sorts no vocabulary, against the definition, which does: the same token, always.

use proptest::prelude::*;
use proptest::sample::select;

use super::super::candidates::Candidates;
use super::super::mask::TokenMask;
use super::super::params::{Mirostat, SamplingParams};
use super::super::sampler::Sampler;
use super::super::stages::{Dry, PerToken};
use super::reference::{Step, choose};

/// Logit rows of many shapes: ties, ruled-out tokens, flat and peaked, some with few candidates.
fn rows() -> impl Strategy<Value = Vec<f32>> {
    let tied = prop_oneof![8 => (-8i8..8).prop_map(|l| f32::from(l) / 2.0), 1 => Just(f32::NEG_INFINITY), 1 => Just(-0.0)];
    let spread = (1usize..3000, any::<u64>(), select(vec![0.0, 0.1, 1.0, 3.0, 8.0, 100.0]));
    prop_oneof![
        proptest::collection::vec(tied.clone(), 1..20),
        proptest::collection::vec(tied, 1..1500),
        spread.prop_map(|(n, seed, spread)| super::logits(n, seed, spread)),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    rows().prop_flat_map(|logits| {
        let n = logits.len() as u32;
        let few = n.min(6);
        let allowed = proptest::collection::vec(proptest::bool::weighted(0.8), logits.len());
        (
            Just(logits),
            prop_oneof![proptest::collection::vec(0..few, 0..40), proptest::collection::vec(0..n, 0..100)],
            proptest::collection::vec(0..n, 0..3),
            proptest::option::of(allowed),
        )
            .prop_map(|(logits, generated, exempt, allowed)| Step {
                logits,
                generated,
                exempt,
                allowed,
                choice: 0,
            })
    })
}

fn off_or<T: Clone + std::fmt::Debug + 'static>(off: T, on: Vec<T>) -> impl Strategy<Value = T> {
    prop_oneof![2 => Just(off), 1 => select(on)]
}

fn settings() -> impl Strategy<Value = SamplingParams> {
    let shape = (
        off_or(1.0f32, vec![0.0, 1e-30, 0.1, 0.7, 1.5, 1e30]),
        off_or(0.0f32, vec![0.3, 1.0, 2.0]),
        select(vec![0.0f32, 0.5, 1.0, 2.0]),
        select(vec![Mirostat::Off, Mirostat::Off, Mirostat::Off, Mirostat::V1, Mirostat::V2]),
        select(vec![0.0f32, 1.0, 3.0, 5.0]),
    );
    let cuts = (
        off_or(0u32, vec![1, 3, 40, 200, 1000]),
        off_or(1.0f32, vec![0.0, 0.1, 0.5, 0.9, 0.95, 0.9999999]),
        off_or(0.0f32, vec![1e-7, 0.05, 0.5, 1.0]),
        off_or(1.0f32, vec![0.0, 0.2, 0.9]),
        off_or(0.0f32, vec![0.5, 1.0, 2.0]),
        off_or(0.0f32, vec![0.5, 1.0]),
        select(vec![0.0f32, 0.02, 0.1, 0.3, 0.6]),
        select(vec![0u32, 0, 1, 5, 300]),
    );
    let penalties = (
        off_or(1.0f32, vec![0.5, 1.1, 50.0]),
        select(vec![0, 1, 16, 64, -1]),
        off_or(0.0f32, vec![-1.0, 0.5, 5.0]),
        off_or(0.0f32, vec![-1.0, 0.5]),
        off_or(0.0f32, vec![0.8, 3.0]),
        select(vec![0, 10, -1]),
        0u32..4,
        proptest::collection::vec(proptest::collection::vec(0u32..6, 0..3), 0..3),
    );
    let bias = proptest::collection::vec((0u32..6, select(vec![-2.0, 0.0, 3.0, f32::NEG_INFINITY])), 0..3);
    (shape, cuts, penalties, bias).prop_map(|(shape, cuts, penalties, logit_bias)| SamplingParams {
        temperature: shape.0,
        dynatemp_range: shape.1,
        dynatemp_exponent: shape.2,
        mirostat: shape.3,
        mirostat_tau: shape.4,
        mirostat_eta: 0.1,
        top_k: cuts.0,
        top_p: cuts.1,
        min_p: cuts.2,
        typical_p: cuts.3,
        top_n_sigma: cuts.4,
        xtc_probability: cuts.5,
        xtc_threshold: cuts.6,
        min_keep: cuts.7,
        repeat_penalty: penalties.0,
        repeat_last_n: penalties.1,
        frequency_penalty: penalties.2,
        presence_penalty: penalties.3,
        dry_multiplier: penalties.4,
        dry_penalty_last_n: penalties.5,
        dry_allowed_length: penalties.6,
        dry_sequence_breakers: penalties.7,
        dry_base: 1.75,
        logit_bias,
        seed: None,
    })
}

fn mask_of(allowed: &[bool]) -> TokenMask {
    let mut mask = TokenMask::none(allowed.len());
    (0..).zip(allowed).filter(|(_, allowed)| **allowed).for_each(|(id, _)| mask.allow(id));
    mask
}

/// Some steps in a row with one sampler: scratch left over from a step must not show in the next. Every step is drawn
/// for several choices, for a wrong distribution to show.
fn check(
    mut params: SamplingParams,
    seed: u64,
    mut step: Step,
    (n_steps, n_choices): (usize, u32),
) -> Result<(), TestCaseError> {
    let n_vocab = step.logits.len();
    params.logit_bias.retain(|(id, _)| (*id as usize) < n_vocab);
    params.dry_sequence_breakers.iter_mut().for_each(|b| b.retain(|id| (*id as usize) < n_vocab));
    params.seed = Some(seed);
    let mask = step.allowed.as_deref().map(mask_of);
    let mut mu = 2.0 * params.mirostat_tau;
    let mut sampler =
        Sampler::new(params.clone(), n_vocab).unwrap().with_end_of_generation(&step.exempt).unwrap();
    for _ in 0..n_steps {
        let before = sampler.state();
        let mut next = None;
        for choice in 0..n_choices {
            step.choice = choice;
            sampler.restore(before);
            let expected = choose(&params, seed, &step, mu);
            let drawn = sampler.sample(&step.logits, &step.generated, choice, mask.as_ref());
            prop_assert_eq!(drawn.ok().map(|d| d.id), expected.0);
            next = Some(expected);
        }
        let Some((Some(id), next_mu)) = next else { break };
        mu = next_mu;
        step.generated.push(id);
        step.logits.rotate_left(1);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn r73_equals_the_definition(params in settings(), seed in any::<u64>(), step in steps()) {
        check(params, seed, step, (3, 4))?;
    }

    /// Plain temperature over all candidates, where the walk decides how far to sort.
    #[test]
    fn r73_untruncated_draws_equal_the_definition(
        temperature in select(vec![0.05f32, 0.5, 1.0, 2.0, 10.0]), seed in any::<u64>(), step in steps(),
    ) {
        check(SamplingParams { temperature, ..SamplingParams::default() }, seed, step, (3, 4))?;
    }
}

proptest! {
    /// DRY token by token: texts over few tokens, which repeat themselves all the time.
    #[test]
    fn dry_equals_the_definition(
        generated in proptest::collection::vec(0u32..4, 0..60),
        breakers in proptest::collection::vec(proptest::collection::vec(0u32..4, 0..4), 0..3),
        allowed_length in 0u32..5,
        last_n in select(vec![-1, 5, 30]),
        exempt in proptest::option::of(0u32..4),
    ) {
        let params = SamplingParams {
            dry_multiplier: 0.5,
            dry_base: 1.25,
            dry_allowed_length: allowed_length,
            dry_penalty_last_n: last_n,
            dry_sequence_breakers: breakers,
            ..SamplingParams::default()
        };
        let exempt: Vec<u32> = exempt.into_iter().collect();
        let logits = vec![0.0, -1.0, 2.0, f32::NEG_INFINITY];
        let mut candidates = Candidates::new(4);
        candidates.load(&logits, None);
        let mut dry = Dry::new(&params, 4).unwrap();
        dry.apply(&mut candidates, &generated, &exempt, &mut PerToken::new(4)).unwrap();

        let step = Step { logits: logits.clone(), generated, exempt, allowed: None, choice: 0 };
        let mut expected = logits;
        super::reference::dry(&params, &step, &mut expected);
        prop_assert_eq!((0..4).map(|id| candidates.logit(id)).collect::<Vec<_>>(), expected);
    }
}

/// The largest vocabulary in use.
#[test]
fn r73_at_262144_tokens() {
    let cases = [
        SamplingParams::default(),
        SamplingParams { temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05, ..SamplingParams::default() },
        SamplingParams { top_p: 0.9, ..SamplingParams::default() },
        SamplingParams { min_p: 0.01, typical_p: 0.9, ..SamplingParams::default() },
        SamplingParams { mirostat: Mirostat::V2, ..SamplingParams::default() },
    ];
    for (seed, spread) in [(1, 3.0), (2, 0.01)] {
        let logits = super::logits(262_144, seed, spread);
        let step = Step { logits, generated: vec![7; 3], exempt: vec![], allowed: None, choice: 0 };
        for params in &cases {
            check(params.clone(), seed, step.clone(), (2, 1)).unwrap();
        }
    }
}
