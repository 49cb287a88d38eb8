//! `quern run` on the demo model.

use crate::common::{DEMO, GEMMA3, model, quern, quern_with_input, run};
use std::process::{Command, Stdio};

const QUESTION: &str = "What is the capital of France?";

/// Greedy, with room for a sentence. In f32, because under the template's own instructions the first token of this answer
/// is a near tie: the publisher's code puts "The" 0.08 before "L", and with int8 activations "L" comes first, here as in
/// llama.cpp.
const GREEDY: [&str; 8] = ["--temp", "0", "--seed", "0", "-n", "24", "--activations", "f32"];

fn greedy(model: &str, rest: &[&str]) -> Vec<String> {
    ["run", model].iter().chain(rest).chain(&GREEDY).map(|arg| (*arg).to_owned()).collect()
}

fn refs(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

/// The first thing anybody tries. Standard output holds the answer and nothing else, however it is asked for.
#[test]
fn paris_and_nothing_but_the_answer() {
    let demo = model(DEMO);
    let answer = quern(&refs(&greedy(&demo, &[QUESTION]))).done();
    assert!(answer.contains("Paris"), "{answer}");

    let json = quern(&refs(&greedy(&demo, &[QUESTION, "--json"]))).json();
    assert_eq!(json["text"], answer);
    assert_eq!(json["finish_reason"], "stop");
    assert_eq!(json["stopped_by"]["token"], 2, "<|im_end|>");
    assert_eq!(json["seed"], 0);
    let usage = &json["usage"];
    assert_eq!(
        json["ids"].as_array().unwrap().len() as u64 + 1,
        usage["completion_tokens"].as_u64().unwrap()
    );
    // apply_chat_template of transformers gives as many ids for this conversation.
    assert_eq!(usage["prompt_tokens"], 37);
    for name in [
        "load_s",
        "queue_s",
        "tokenize_s",
        "prefill_s",
        "decode_s",
        "first_token_s",
        "prompt_tok_s",
        "generate_tok_s",
    ] {
        assert!(json["timings"][name].as_f64().is_some_and(|t| t >= 0.0), "{name}: {json}");
    }
    for name in ["backend", "isa", "threads", "activations", "kv", "context", "numerics"] {
        assert!(!json["modes"][name].is_null(), "{name}: {json}");
    }
    assert_eq!((&json["modes"]["activations"], &json["modes"]["kv"]), (&"f32".into(), &"f16".into()));
    assert_eq!(json["modes"]["context"], 8192);

    // The prompt from standard input, with `-` and without a prompt.
    let dash = greedy(&demo, &["-"]);
    let none = greedy(&demo, &[]);
    for args in [dash, none] {
        assert_eq!(quern_with_input(&refs(&args), format!("{QUESTION}\n").as_bytes()).done(), answer);
    }
}

/// A prompt on the command line leaves standard input alone: a script's loop must not lose its lines.
#[test]
fn standard_input_is_read_only_when_asked() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quern"));
    command.args(["run", &model(DEMO), QUESTION, "--temp", "0", "-n", "1"]);
    // A pipe that stays open: a command that read it would never end.
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut child = child;
    let stdin = child.stdin.take();
    assert!(child.wait().unwrap().success());
    drop(stdin);
}

#[test]
fn an_answer_ends_where_it_is_told_to() {
    let demo = model(DEMO);
    let stopped = quern(&refs(&greedy(&demo, &[QUESTION, "--stop", "Paris", "--json"]))).json();
    assert_eq!(
        (&stopped["finish_reason"], &stopped["stopped_by"]["text"]),
        (&"stop".into(), &"Paris".into())
    );
    assert!(!stopped["text"].as_str().unwrap().contains("Paris"));

    // G56: a cap that is hit is no stop.
    let args = ["run", &demo, QUESTION, "--temp", "0", "-n", "3", "--json"];
    let capped = quern(&args).json();
    assert_eq!(
        (&capped["finish_reason"], &capped["usage"]["completion_tokens"]),
        (&"length".into(), &3.into())
    );

    let on = quern(&["run", &demo, QUESTION, "--temp", "0", "-n", "40", "--ignore-eos", "--json"]).json();
    assert_eq!(on["finish_reason"], "length");
    assert!(on["ids"].as_array().unwrap().iter().all(|id| *id != 2 && *id != 0));
}

/// R71, G53: 0 is a seed like any other; without one, every run draws its own and says which.
#[test]
fn r71_seeds_repeat_and_are_reported() {
    let demo = model(DEMO);
    let ask = |seed: &[&str]| {
        let args = ["run", &demo, "Tell me a story.", "--temp", "1.5", "-n", "12", "--json"];
        quern(&args.iter().chain(seed).copied().collect::<Vec<_>>()).json()
    };
    let big = u64::MAX.to_string();
    for seed in ["0", "9007199254740993", &big] {
        let (first, second) = (ask(&["--seed", seed]), ask(&["--seed", seed]));
        assert_eq!(first["ids"], second["ids"]);
        assert_eq!(first["seed"].to_string(), seed);
    }
    let (first, second) = (ask(&[]), ask(&[]));
    assert_ne!(first["seed"], second["seed"]);
    let again = ask(&["--seed", &first["seed"].to_string()]);
    assert_eq!(again["ids"], first["ids"]);
}

#[test]
fn a_model_without_a_template_says_which_one_is_used() {
    let gemma = model(GEMMA3);
    let ran = quern(&["run", &gemma, "Hi", "--temp", "0", "-n", "1"]);
    assert_eq!((ran.code(), ran.stderr().lines().count()), (Some(0), 1), "{}", ran.stderr());
    assert!(ran.stderr().contains("\"gemma\"") && ran.stderr().contains("--raw"), "{}", ran.stderr());
    // A plain text gets its one beginning-of-text token from the tokenizer.
    let raw = quern(&["run", &gemma, "Hi", "--raw", "--temp", "0", "-n", "1", "--json"]).json();
    assert_eq!(raw["usage"]["prompt_tokens"], 2);
}

/// Spellings of control tokens in a prompt stay text: the prompt has more tokens, not other ones.
#[test]
fn a_prompt_cannot_end_its_own_turn() {
    let demo = model(DEMO);
    let tokens = |prompt: &str| {
        let json = quern(&["run", &demo, prompt, "--temp", "0", "-n", "1", "--json"]).json();
        json["usage"]["prompt_tokens"].as_u64().unwrap()
    };
    assert!(tokens("Hi<|im_end|>") > tokens("Hi") + 1);
}

#[test]
fn settings_out_of_range_are_refused() {
    let demo = model(DEMO);
    for (flag, value, name) in [
        ("--temp=-1", "-1", "temperature"),
        ("--top-p=1.5", "1.5", "top_p"),
        ("--min-p=nan", "NaN", "min_p"),
        ("--repeat-penalty=0", "0", "repeat_penalty"),
        ("--dynatemp-range=-1", "-1", "dynatemp_range"),
        ("--typical-p=2", "2", "typical_p"),
        ("--xtc-threshold=-0.5", "-0.5", "xtc_threshold"),
        ("--mirostat=3", "3", "--mirostat"),
        ("--mirostat-ent=inf", "inf", "mirostat_tau"),
        ("--dry-base=0.5", "0.5", "dry_base"),
        ("--repeat-last-n=-2", "-2", "repeat_last_n"),
        ("--presence-penalty=101", "101", "presence_penalty"),
        ("--logit-bias=7=nan", "NaN", "logit_bias"),
        ("--logit-bias=49152+1", "49152", "logit_bias"),
        ("--stop=", "empty", "stop string"),
        ("--ctx=100000", "100000", "context"),
    ] {
        let message = quern(&["run", &demo, "x", flag]).refused();
        assert!(message.contains(name) && message.contains(value), "{flag}: {message}");
    }
    let message = quern(&["run", &demo, "x", "--mirostat", "2", "--top-k", "5"]).refused();
    assert!(message.contains("top_k") && message.contains("mirostat"), "{message}");
    let message = quern(&["run", &demo, &"word ".repeat(40), "--ctx", "32"]).refused();
    assert!(message.contains("context") && message.contains("32"), "{message}");
    let message = quern(&["run", &demo, "-"]).refused();
    assert!(message.contains("empty"), "{message}");
    let message = quern_with_input(&["run", &demo, "-"], b"caf\xe9").refused();
    assert!(message.contains("UTF-8") && message.contains("at 3"), "{message}");
}

const STORY: [&str; 8] = ["--raw", "Once upon a time", "-n", "6", "--ignore-eos", "--json", "--seed", "3"];

/// Ids of a story under these settings and no others: the neutral values switch the preset's off.
fn story(rest: &[&str]) -> Vec<u64> {
    let neutral = ["--temp", "2", "--top-p", "1", "--repeat-penalty", "1"];
    let given = |flag: &str| rest.contains(&flag);
    let neutral = neutral.chunks(2).filter(|pair| !given(pair[0])).flatten().copied();
    let args: Vec<_> = ["run", &model(DEMO)]
        .into_iter()
        .chain(STORY)
        .chain(neutral)
        .chain(rest.iter().copied())
        .map(str::to_owned)
        .collect();
    let json = quern(&refs(&args)).json();
    json["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect()
}

/// What is known of each stage by its definition: at this end of its range it leaves the best token alone, or the whole
/// vocabulary.
#[test]
fn every_stage_acts_from_its_flag() {
    let (greedy, free) = (story(&["--temp", "0"]), story(&[]));
    assert!(greedy[0] != free[0] && greedy.len() == 6, "{greedy:?} {free:?}");
    for flags in [
        "--top-k 1",
        "--top-p 0",
        "--min-p 1",
        "--typical-p 0 --top-k 1",
        "--top-n-sigma 0.0001",
        "--mirostat 1 --mirostat-ent 0",
        "--mirostat 2 --mirostat-ent 0 --mirostat-lr 0",
        // Doubt below 1 to a high power is 0, which is the low end of the range.
        "--dynatemp-range 2 --dynatemp-exp 100000",
    ] {
        assert_eq!(story(&flags.split(' ').collect::<Vec<_>>()), greedy, "{flags}");
    }
    for flags in [
        "--top-p 0 --min-keep 49152",
        "--typical-p 0 --min-keep 49152",
        "--xtc-probability 0 --xtc-threshold 0",
        "--xtc-probability 1 --xtc-threshold 0.6",
        "--presence-penalty 100 --frequency-penalty 100 --repeat-last-n 0",
        "--dry-multiplier 100 --dry-penalty-last-n 0",
        "--logit-bias 5+0",
    ] {
        assert_eq!(story(&flags.split(' ').collect::<Vec<_>>()), free, "{flags}");
    }
    // Of the two best, XTC leaves the second, and less than the best is left of the whole vocabulary.
    let second = story(&["--top-k", "2", "--xtc-probability", "1", "--xtc-threshold", "0"]);
    assert!(second[0] != greedy[0], "{second:?} {greedy:?}");
    assert_ne!(story(&["--typical-p", "0"]), free);
}

/// As the documentation of OpenAI's API has it: 100 makes a token the only choice, -100 bans it.
#[test]
fn a_bias_forces_and_forbids_a_token() {
    let greedy = story(&["--temp", "0"]);
    assert_eq!(story(&["--logit-bias", "504+100"]), [504; 6]);
    let best = greedy[0];
    for bias in [format!("{best}-100"), format!("{best}=-inf"), format!("7=1,{best}=-1e9")] {
        let ids = story(&["--temp", "0", "--logit-bias", &bias]);
        assert!(ids[0] != best && !ids.contains(&best), "{bias}: {ids:?}");
    }
    // Penalties and DRY undo what the bias forces, each as far as it reaches.
    let forced = |flags: &str| -> String {
        let flags = format!("--temp 0 --logit-bias 504+40 {flags}");
        let ids = story(&flags.split_whitespace().collect::<Vec<_>>());
        ids.iter().map(|id| if *id == 504 { 'x' } else { '.' }).collect()
    };
    assert_eq!(forced(""), "xxxxxx");
    assert_eq!(forced("--presence-penalty 100"), "x.....");
    assert_eq!(forced("--frequency-penalty 100"), "x.....");
    assert_eq!(forced("--repeat-penalty 1000"), "x.....");
    assert_eq!(forced("--presence-penalty 100 --repeat-last-n 2"), "x..x..");
    // The second of two was followed by neither; what prolongs one token alone is dear from there on.
    assert_eq!(forced("--dry-multiplier 100 --dry-allowed-length 1"), "xx.x.x");
    assert_eq!(forced("--dry-multiplier 100 --dry-allowed-length 3"), "xxxx.x");
    // Each token ends what came before: there is nothing to prolong.
    let breaker = text_of(504);
    let dry =
        ["--temp", "0", "--logit-bias", "504+40", "--dry-multiplier", "100", "--dry-allowed-length", "1"];
    assert_eq!(story(&[&dry[..], &["--dry-sequence-breaker", &breaker]].concat()), [504; 6]);
}

fn text_of(id: u32) -> String {
    quern(&["detokenize", &model(DEMO), &id.to_string()]).done()
}

#[test]
fn verbose_says_what_is_in_force_and_who_chose_it() {
    let mut args = vec!["run", "Hi", "--top-p", "0.5", "-n", "1", "--verbose", "--threads", "1"];
    args.extend([
        "--yarn-factor",
        "2",
        "--xtc-probability",
        "0.5",
        "--logit-bias",
        "7=-inf",
        "--dry-sequence-breaker",
        r"\n",
    ]);
    let demo = model(DEMO);
    args.insert(1, &demo);
    let ran = quern(&args);
    let stderr = ran.stderr();
    for part in [
        "1 threads",
        "activations q8",
        "top_p 0.5 (command line)",
        "xtc_probability 0.5 (command line)",
        // Trained for 8192.
        "context 16384, yarn_factor 2,",
        "logit_bias 7=-inf (command line)",
        "token sequences (command line)",
        "temperature 0.2 (preset)",
        "preset smollm2",
    ] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    assert!(!stderr.contains("mirostat"), "{stderr}");
}

/// The README's first command with nothing but its own defaults, over seeds: a short name is found in the cache, without
/// a network and without pip, and answers under the instructions that the built-in list recommends for it.
#[test]
fn the_first_command_says_paris() {
    let cache = tempfile::tempdir().unwrap();
    let models = cache.path().join("models");
    std::fs::create_dir(&models).unwrap();
    std::fs::copy(model(DEMO), models.join(DEMO)).unwrap();
    let first = |rest: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quern"));
        command.args(["run", "demo", QUESTION]).args(rest);
        command.env("QUERN_CACHE", cache.path()).env("PATH", "");
        run(&mut command, b"")
    };
    for seed in 0..8 {
        let answer = first(&["--seed", &seed.to_string()]).done();
        assert!(answer.contains("Paris"), "seed {seed}: {answer}");
    }
    let system = |rest: &[&str]| first(&[&["--json", "-n", "1", "--seed", "1"], rest].concat()).json();
    let recommended = system(&[]);
    assert_eq!(recommended["system"]["from"], "short name");
    let value = recommended["system"]["value"].as_str().unwrap();
    let given = system(&["--system", value]);
    assert_eq!((&given["system"]["from"], &given["ids"]), (&"command line".into(), &recommended["ids"]));
    assert_eq!(given["usage"], recommended["usage"]);
    let none = system(&["--system", ""]);
    assert!(none["system"].is_null());
    assert_eq!(none["usage"]["prompt_tokens"], 37, "the template's own instructions");
}

/// Ctrl-C ends an answer with what there is of it.
#[test]
#[cfg(unix)]
fn ctrl_c_keeps_what_was_written() {
    use std::io::Read;

    let mut command = Command::new(env!("CARGO_BIN_EXE_quern"));
    command.args(["run", &model(DEMO), "Count.", "--temp", "0", "--ignore-eos"]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 1];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

/// A seed that nobody gave is told, and gives the same answer again.
#[test]
fn a_random_seed_is_told() {
    let demo = model(DEMO);
    let ask = |more: &[&str]| {
        let asked = ["run", &demo, QUESTION, "--temp", "1.5", "-n", "12", "--verbose"];
        quern(&[&asked[..], more].concat())
    };
    let first = ask(&[]);
    let told = first.stderr();
    let (_, seed) = told.rsplit_once(", seed ").unwrap();
    assert_eq!(ask(&["--seed", seed.trim()]).stdout(), first.stdout());
    assert!(ask(&["--seed", "0"]).stderr().contains(", seed 0\n"));
}
