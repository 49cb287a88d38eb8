//! What a caller of the sampler can rely on.

use super::super::params::{Mirostat, SamplingParams};
use super::super::{Overrides, STAGES, Sampler, SamplingError, Stage, TokenMask, log_sum_exp, resolve};
use super::logits;

fn sampler(params: SamplingParams, n_vocab: usize) -> Sampler {
    Sampler::new(params, n_vocab).unwrap()
}

fn seeded(seed: u64) -> SamplingParams {
    SamplingParams { seed: Some(seed), ..SamplingParams::default() }
}

/// Draws along a text in which every row of logits differs.
fn text(sampler: &mut Sampler, n: usize) -> Vec<u32> {
    let mut generated = Vec::new();
    for i in 0..n {
        let row = logits(500, i as u64, 2.0);
        let id = sampler.sample(&row, &generated, 0, None).unwrap().id;
        generated.push(id);
    }
    generated
}

#[test]
fn greedy_takes_the_lowest_id_among_equals() {
    let mut greedy = sampler(SamplingParams::greedy(), 5);
    let mut pick = |row: &[f32]| greedy.sample(row, &[], 0, None).unwrap().id;
    assert_eq!(pick(&[1.0, 3.0, 3.0, 2.0, 3.0]), 1);
    assert_eq!(pick(&[-1.0, -0.0, 0.0, -2.0, f32::NEG_INFINITY]), 1);
    assert_eq!(pick(&[f32::NEG_INFINITY, -1e30, -2e30, -3e30, -4e30]), 1);
}

/// Temperature 0 is greedy after bias and penalties; truncations and XTC have no say, mirostat neither.
#[test]
fn greedy_honours_bias_and_penalties_only() {
    let params = SamplingParams {
        xtc_probability: 1.0,
        xtc_threshold: 0.0,
        typical_p: 0.0,
        mirostat: Mirostat::V2,
        ..SamplingParams::greedy()
    };
    let row = [2.0, 1.9, 0.0];
    assert_eq!(sampler(params.clone(), 3).sample(&row, &[], 0, None).unwrap().id, 0);
    let biased = SamplingParams { logit_bias: vec![(2, 5.0)], ..params.clone() };
    assert_eq!(sampler(biased, 3).sample(&row, &[], 0, None).unwrap().id, 2);
    let penalised = SamplingParams { repeat_penalty: 1.2, ..params };
    assert_eq!(sampler(penalised, 3).sample(&row, &[0], 0, None).unwrap().id, 1);
}

/// R71: 0 is a seed like any other; without a seed one is drawn at random, reported, and reproduces the text.
#[test]
fn r71_seeds() {
    assert_eq!(sampler(seeded(0), 500).seed(), 0);
    let zero = text(&mut sampler(seeded(0), 500), 40);
    assert_eq!(zero, text(&mut sampler(seeded(0), 500), 40));
    assert_ne!(zero, text(&mut sampler(seeded(1), 500), 40));

    let mut random = sampler(SamplingParams::default(), 500);
    let drawn = text(&mut random, 40);
    assert_eq!(drawn, text(&mut sampler(seeded(random.seed()), 500), 40));
    assert_ne!(random.seed(), sampler(SamplingParams::default(), 500).seed());
}

/// R72: a repeated token is penalised once, however often it occurred.
#[test]
fn r72_repeat_penalty_counts_a_token_once() {
    // Token 0 leads by a factor of 1.9 over token 1: one penalty of 1.5 leaves it first, two would not.
    let params = SamplingParams { repeat_penalty: 1.5, ..SamplingParams::greedy() };
    let row = [1.9, 1.0, 0.0];
    for generated in [&[0u32][..], &[0, 0], &[0, 0, 2, 0]] {
        assert_eq!(sampler(params.clone(), 3).sample(&row, generated, 0, None).unwrap().id, 0);
    }
}

/// R72: end-of-generation tokens are never penalised, by any of the penalties.
#[test]
fn r72_end_of_generation_is_exempt() {
    let params = SamplingParams {
        repeat_penalty: 2.0,
        frequency_penalty: 1.0,
        presence_penalty: 1.0,
        dry_multiplier: 5.0,
        dry_allowed_length: 1,
        ..SamplingParams::greedy()
    };
    let row = [2.0, 1.5, 0.0];
    let generated = [2, 0, 2, 0, 2];
    assert_eq!(sampler(params.clone(), 3).sample(&row, &generated, 0, None).unwrap().id, 1);
    let mut exempt = sampler(params, 3).with_end_of_generation(&[0]).unwrap();
    assert_eq!(exempt.sample(&row, &generated, 0, None).unwrap().id, 0);
}

#[test]
fn r72_the_window_forgets() {
    let of_window =
        |repeat_last_n| SamplingParams { repeat_penalty: 4.0, repeat_last_n, ..SamplingParams::greedy() };
    let generated = [0, 2, 2];
    for (repeat_last_n, expected) in [(0, 0), (2, 0), (3, 1), (-1, 1)] {
        let id =
            sampler(of_window(repeat_last_n), 3).sample(&[2.0, 1.0, 0.0], &generated, 0, None).unwrap().id;
        assert_eq!(id, expected, "repeat_last_n {repeat_last_n}");
    }
}

/// R42: an id beyond the vocabulary is refused by name wherever it comes from, and leaves the sampler usable.
#[test]
fn r42_ids_beyond_the_vocabulary() {
    let refused = |params| Sampler::new(params, 4).unwrap_err().to_string();
    let bias = SamplingParams { logit_bias: vec![(4, 1.0)], ..SamplingParams::default() };
    assert_eq!(refused(bias), "logit_bias names token 4, but the vocabulary has 4 tokens (0 to 3)");
    let breaker = SamplingParams { dry_sequence_breakers: vec![vec![1, 9]], ..SamplingParams::default() };
    assert!(refused(breaker).starts_with("dry_sequence_breakers names token 9"));
    assert!(sampler(SamplingParams::default(), 4).with_end_of_generation(&[4]).is_err());

    // One occurrence leaves token 0 first; counts left over from the refused step would not.
    let mut strict = sampler(SamplingParams { frequency_penalty: 0.2, ..SamplingParams::greedy() }, 4);
    let row = [0.5, 0.25, 0.0, 0.125];
    let error = strict.sample(&row, &[0, 0, 70_000], 0, None).unwrap_err();
    assert_eq!(
        error,
        SamplingError::TokenOutOfVocabulary { what: "the generated text", id: 70_000, n_vocab: 4 }
    );
    assert_eq!(strict.sample(&row, &[0], 0, None).unwrap().id, 0);
}

#[test]
fn broken_logits_are_named() {
    for params in [SamplingParams::greedy(), seeded(1)] {
        let mut s = sampler(params, 3);
        assert_eq!(
            s.sample(&[0.0, f32::INFINITY, f32::NAN], &[], 0, None),
            Err(SamplingError::NonFinite { id: 1, value: f32::INFINITY })
        );
        let nan = s.sample(&[0.0, 1.0, f32::NAN], &[], 0, None).unwrap_err();
        assert_eq!(nan.to_string(), "the logit of token 2 is NaN: the model's output is not finite");
        assert_eq!(
            s.sample(&[0.0], &[], 0, None),
            Err(SamplingError::LogitsLength { n_logits: 1, n_vocab: 3 })
        );
        let nothing = Err(SamplingError::NothingAllowed);
        assert_eq!(s.sample(&[0.0; 3], &[], 0, Some(&TokenMask::none(3))), nothing);
        assert_eq!(s.sample(&[f32::NEG_INFINITY; 3], &[], 0, None), nothing);
    }
}

#[test]
fn only_allowed_tokens_are_drawn() {
    let mut mask = TokenMask::none(500);
    [3, 77, 499].into_iter().for_each(|id| mask.allow(id));
    let banned = SamplingParams { logit_bias: vec![(77, f32::NEG_INFINITY), (0, 100.0)], ..seeded(9) };
    let mut s = sampler(banned, 500);
    let mut seen = [0; 500];
    let generated = [0; 300];
    for n in 0..300 {
        seen[s.sample(&logits(500, n as u64, 1.0), &generated[..n], 0, Some(&mask)).unwrap().id as usize] +=
            1;
    }
    assert!(seen[3] > 50 && seen[499] > 50 && seen[3] + seen[499] == 300, "{} {}", seen[3], seen[499]);
}

/// G53: top_p 0 is the narrowest nucleus, not a switched-off one.
#[test]
fn g53_top_p_0_is_greedy() {
    for seed in 0..20 {
        let narrow = SamplingParams { top_p: 0.0, temperature: 5.0, ..seeded(seed) };
        assert_eq!(
            text(&mut sampler(narrow, 500), 10),
            text(&mut sampler(SamplingParams::greedy(), 500), 10)
        );
    }
}

/// G53: asking for log probabilities changes no draw. Expected log probability: the raw logit's, whatever is cut.
#[test]
fn g53_logprobs_change_no_draw() {
    let params = SamplingParams { top_k: 40, temperature: 1.4, repeat_penalty: 1.3, ..seeded(4) };
    let mut without = sampler(params.clone(), 500);
    let mut with = sampler(params, 500);
    with.set_logprobs(true);
    assert_eq!(text(&mut without, 50), text(&mut with, 50));
    let row = logits(500, 1, 2.0);
    let drawn = with.sample(&row, &[], 0, None).unwrap();
    assert_eq!(drawn.logprob, Some(row[drawn.id as usize] - log_sum_exp(&row)));
    assert_eq!(without.sample(&row, &[], 0, None).unwrap().logprob, None);
}

/// Taking a step back (speculation does) and repeating it gives the same token and the same state.
#[test]
fn restored_state_repeats_the_step() {
    let params = SamplingParams { mirostat: Mirostat::V2, mirostat_tau: 3.0, mirostat_eta: 0.5, ..seeded(8) };
    let mut s = sampler(params, 500);
    let generated = text(&mut s, 20);
    let before = s.state();
    let row = logits(500, 99, 2.0);
    let first = s.sample(&row, &generated, 0, None).unwrap();
    let after = s.state();
    assert_ne!(before, after);
    s.restore(before);
    assert_eq!(s.sample(&row, &generated, 0, None).unwrap(), first);
    assert_eq!(s.state(), after);
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    type Spoil = fn(&mut SamplingParams, f32);
    let fields: [(&str, Spoil, &[f32]); 18] = [
        ("temperature", |p, x| p.temperature = x, &[-0.1, f32::INFINITY]),
        ("dynatemp_range", |p, x| p.dynatemp_range = x, &[-0.1]),
        ("dynatemp_exponent", |p, x| p.dynatemp_exponent = x, &[-0.1]),
        ("top_p", |p, x| p.top_p = x, &[-0.1, 1.01]),
        ("min_p", |p, x| p.min_p = x, &[-0.1, 1.05]),
        ("typical_p", |p, x| p.typical_p = x, &[-0.1, 2.0]),
        ("top_n_sigma", |p, x| p.top_n_sigma = x, &[-1.0]),
        ("xtc_probability", |p, x| p.xtc_probability = x, &[-0.1, 1.1]),
        ("xtc_threshold", |p, x| p.xtc_threshold = x, &[-0.1, 1.1]),
        ("mirostat_tau", |p, x| p.mirostat_tau = x, &[-0.1]),
        ("mirostat_eta", |p, x| p.mirostat_eta = x, &[-0.1]),
        ("repeat_penalty", |p, x| p.repeat_penalty = x, &[0.0, -1.0]),
        ("frequency_penalty", |p, x| p.frequency_penalty = x, &[-100.5, 101.0]),
        ("presence_penalty", |p, x| p.presence_penalty = x, &[-100.5, 101.0]),
        ("dry_multiplier", |p, x| p.dry_multiplier = x, &[-0.1]),
        ("dry_base", |p, x| p.dry_base = x, &[0.99]),
        ("logit_bias", |p, x| p.logit_bias = vec![(0, x)], &[f32::INFINITY]),
        ("repeat_last_n", |p, x| p.repeat_last_n = if x.is_nan() { -2 } else { x as i32 }, &[-2.0]),
    ];
    for (name, spoil, values) in fields {
        for value in values.iter().chain(&[f32::NAN]) {
            let mut params = SamplingParams::default();
            spoil(&mut params, *value);
            match params.validate() {
                Err(SamplingError::OutOfRange { name: refused, .. }) => assert_eq!(refused, name),
                other => panic!("{name} {value}: {other:?}"),
            }
        }
    }
    let error = SamplingParams { top_p: 1.5, ..SamplingParams::default() }.validate().unwrap_err();
    assert_eq!(error.to_string(), "top_p is 1.5, but must be from 0 to 1 (1 is off)");
    assert!(Mirostat::try_from(3).is_err());
}

/// The table of stages names every setting, and what settings put in force stands in the table's order.
#[test]
fn stages_are_documented_and_ordered() {
    let mut named: Vec<&str> = STAGES.iter().flat_map(|info| info.params).copied().collect();
    named.sort_unstable();
    named.dedup();
    let resolved = resolve(super::super::Layers { request: &Overrides::default(), ..Default::default() });
    let mut settings: Vec<&str> = resolved.sources().iter().map(|(name, _)| *name).collect();
    settings.sort_unstable();
    assert_eq!(named, settings);

    let all = SamplingParams {
        temperature: 0.5,
        top_k: 5,
        top_p: 0.5,
        min_p: 0.1,
        typical_p: 0.5,
        top_n_sigma: 1.0,
        xtc_probability: 0.5,
        repeat_penalty: 1.1,
        dry_multiplier: 1.0,
        logit_bias: vec![(0, 1.0)],
        ..SamplingParams::default()
    };
    let order: Vec<Stage> = STAGES.iter().map(|info| info.stage).filter(|s| *s != Stage::Mirostat).collect();
    assert_eq!(all.stages(), order);
    assert_eq!(sampler(all.clone(), 3).stages(), order);
    use Stage::{Draw, Dry, LogitBias, Penalties, Temperature};
    let mirostat = SamplingParams { mirostat: Mirostat::V1, ..all.clone() };
    assert_eq!(mirostat.stages(), [LogitBias, Penalties, Dry, Temperature, Stage::Mirostat, Draw]);
    assert_eq!(SamplingParams { temperature: 0.0, ..all }.stages(), [LogitBias, Penalties, Dry, Draw]);
    assert_eq!(SamplingParams::default().stages(), [Draw]);
}
