//! A weather service as messy as real ones: short names for its arguments, a key and switches that no agent should fill in, and
//! answers full of unit codes, station metadata and billing. The demo's registry makes `get_forecast` of it.
//!
//! Made from the name of the place alone, so that the same question always has the same answer.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock};
use rmcp::{ServerHandler, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The server.
#[derive(Clone)]
pub struct Weather;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ForecastQuery {
    /// Location query, free text.
    #[schemars(length(min = 1, max = 100))]
    q: String,
    /// Number of periods.
    #[serde(default = "three_days")]
    #[schemars(range(min = 1, max = 7))]
    num_days: u8,
    /// Customer key. Keep it secret.
    #[schemars(length(min = 8, max = 200))]
    api_key: String,
    /// Unit system of the response.
    units: Units,
    /// Adds the request as the backend saw it. For support cases only.
    #[serde(default)]
    debug: bool,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum Units {
    Metric,
    Imperial,
}

impl Units {
    fn temperature(self, celsius: f64, quality: &str) -> Value {
        match self {
            Units::Metric => measure("wmoUnit:degC", round(celsius), quality),
            Units::Imperial => measure("wmoUnit:degF", round(celsius * 1.8 + 32.0), quality),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AlertQuery {
    /// Name of a region or country, such as `Vestland`.
    #[schemars(length(min = 1, max = 100))]
    region: String,
}

fn three_days() -> u8 {
    3
}

#[tool_router]
impl Weather {
    /// WX point forecast, v2. See the developer portal for field reference and pricing.
    #[tool(annotations(title = "WX forecast v2", read_only_hint = true, open_world_hint = false))]
    async fn wx_forecast_v2(&self, Parameters(query): Parameters<ForecastQuery>) -> CallToolResult {
        let place = query.q.trim();
        if place.is_empty() || place.len() > 100 {
            return refused("`q` must be 1 to 100 bytes");
        }
        if !(1..=7).contains(&query.num_days) {
            return refused("`num_days` must be 1 to 7");
        }
        if !(8..=200).contains(&query.api_key.len()) {
            return refused("`api_key` is not a key of ours");
        }
        let mut document = forecast(place, query.num_days, query.units);
        if query.debug {
            document["_internal"]["request"] = json!({ "q": query.q, "num_days": query.num_days, "api_key": query.api_key });
        }
        answer(document)
    }

    /// Weather warnings in force for a region, with their severity and what to do. An empty list means there are none.
    #[tool(annotations(title = "Get alerts", read_only_hint = true, open_world_hint = false))]
    async fn get_alerts(&self, Parameters(query): Parameters<AlertQuery>) -> CallToolResult {
        let region = query.region.trim();
        if region.is_empty() || region.len() > 100 {
            return refused("`region` must be a name of 1 to 100 bytes, such as `Vestland`");
        }
        answer(alerts(region))
    }
}

#[tool_handler(name = "transom-demo-weather", instructions = "Made-up weather for any place. The same place always has the same weather.")]
impl ServerHandler for Weather {}

fn refused(why: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(why)])
}

/// The document twice, as old and new clients expect it: as text for a reader and as structured content.
fn answer(document: Value) -> CallToolResult {
    let text = format!("{document:#}");
    let mut result = CallToolResult::structured(document);
    result.content = vec![ContentBlock::text(text)];
    result
}

struct Place {
    name: &'static str,
    country: &'static str,
    latitude: f64,
    longitude: f64,
}

const KNOWN: [Place; 8] = [
    Place { name: "Oslo", country: "NO", latitude: 59.91, longitude: 10.75 },
    Place { name: "Bergen", country: "NO", latitude: 60.39, longitude: 5.32 },
    Place { name: "Zurich", country: "CH", latitude: 47.37, longitude: 8.54 },
    Place { name: "London", country: "GB", latitude: 51.51, longitude: -0.13 },
    Place { name: "Nairobi", country: "KE", latitude: -1.29, longitude: 36.82 },
    Place { name: "Tokyo", country: "JP", latitude: 35.68, longitude: 139.69 },
    Place { name: "Lima", country: "PE", latitude: -12.05, longitude: -77.04 },
    Place { name: "Chicago", country: "US", latitude: 41.88, longitude: -87.63 },
];

const SKIES: [(&str, &str, u16); 6] = [
    ("clear", "Clear sky", 1000),
    ("partly_cloudy", "Partly cloudy", 1003),
    ("overcast", "Overcast", 1009),
    ("light_rain", "Light rain", 1183),
    ("heavy_rain", "Heavy rain", 1195),
    ("snow", "Snow showers", 1255),
];

/// Numbers that depend on a text and on nothing else (FNV-1a, then one round of mixing per draw).
struct Dice(u64);

impl Dice {
    fn of(text: &str) -> Dice {
        let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Dice(text.to_lowercase().bytes().fold(0xcbf2_9ce4_8422_2325, fold))
    }

    /// A whole number from `low` to `high`, both included.
    fn roll(&mut self, low: i64, high: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let span = high.abs_diff(low) + 1;
        low.saturating_add_unsigned((self.0 >> 33) % span)
    }

    /// A number from `low` to `high` with one decimal.
    fn tenths(&mut self, low: i64, high: i64) -> f64 {
        self.roll(low * 10, high * 10) as f64 / 10.0
    }

    fn pick<T: Copy>(&mut self, from: &[T], otherwise: T) -> T {
        let last = i64::try_from(from.len()).unwrap_or(1) - 1;
        let at = usize::try_from(self.roll(0, last)).unwrap_or(0);
        from.get(at).copied().unwrap_or(otherwise)
    }
}

fn forecast(city: &str, days: u8, units: Units) -> Value {
    let mut dice = Dice::of(city);
    let known = KNOWN.iter().find(|place| place.name.eq_ignore_ascii_case(city));
    let (name, country) = known.map_or((city, "ZZ"), |place| (place.name, place.country));
    let (guess_north, guess_east) = (dice.tenths(-60, 70), dice.tenths(-180, 180));
    let (latitude, longitude) = known.map_or((guess_north, guess_east), |place| (place.latitude, place.longitude));
    let station = format!("{country}{:05}", dice.roll(1, 99_999));
    // Warm at the equator, cool at the poles, and a little luck.
    let usual = 30.0 - latitude.abs() * 0.45 + dice.tenths(-4, 4);
    let sky = dice.pick(&SKIES, ("clear", "Clear sky", 1000));
    let current = json!({
        "temperature": units.temperature(usual, "V"),
        "feels_like": units.temperature(usual - dice.tenths(0, 4), "C"),
        "humidity": measure("wmoUnit:percent", dice.roll(25, 98) as f64, "V"),
        "wind": {
            "speed": measure("wmoUnit:km_h-1", dice.tenths(0, 60), "V"),
            "direction": measure("wmoUnit:degree_(angle)", dice.roll(0, 359) as f64, "V"),
        },
        "pressure": { "sea_level": measure("wmoUnit:hPa", dice.tenths(975, 1040), "V"), "tendency_code": dice.roll(0, 8) },
        "condition": condition(sky),
    });
    let periods: Vec<Value> = (0..days).map(|day| period(day, usual, units, &mut dice)).collect();
    json!({
        "status": { "code": 200, "message": "OK", "deprecated_fields": ["data.current.cond_txt"] },
        "data": {
            "location": {
                "name": name,
                "country_code": country,
                "geometry": { "type": "Point", "coordinates": [longitude, latitude], "crs": "urn:ogc:def:crs:OGC:1.3:CRS84" },
                "match": { "quality": if known.is_some() { "exact" } else { "approximate" }, "query": city },
            },
            "current": current,
            "forecast": { "issued_by": "demo-model-7", "resolution": "P1D", "periods": periods },
        },
        "meta": {
            "station": {
                "id": station,
                "elevation": measure("wmoUnit:m", dice.roll(0, 900) as f64, "Z"),
                "sensors": [
                    { "kind": "thermometer", "serial": format!("TH-{:06}", dice.roll(0, 999_999)), "calibrated": true },
                    { "kind": "barometer", "serial": format!("BA-{:06}", dice.roll(0, 999_999)), "calibrated": dice.roll(0, 1) == 1 },
                ],
            },
            "license": { "spdx": "CC0-1.0", "attribution": "made up by transom demo" },
        },
        "_internal": internal(&mut dice),
    })
}

fn period(day: u8, usual: f64, units: Units, dice: &mut Dice) -> Value {
    let low = usual + dice.tenths(-8, -1);
    json!({
        "offset_days": day,
        "temperature": {
            "min": units.temperature(low, "F"),
            "max": units.temperature(low + dice.tenths(2, 10), "F"),
        },
        "precipitation": {
            "amount": measure("wmoUnit:mm", dice.tenths(0, 20), "F"),
            "probability": measure("wmoUnit:percent", dice.roll(0, 100) as f64, "F"),
        },
        "condition": condition(dice.pick(&SKIES, ("clear", "Clear sky", 1000))),
        "model_runs": [{ "name": "det-06", "weight": 0.7 }, { "name": "ens-00", "weight": 0.3 }],
    })
}

fn alerts(region: &str) -> Value {
    const KINDS: [(&str, &str); 4] = [
        ("wind", "Secure loose objects outdoors."),
        ("flood", "Keep away from rivers."),
        ("ice", "Allow more time for travel."),
        ("heat", "Drink water and rest in the shade."),
    ];
    let mut dice = Dice::of(region);
    let count = dice.roll(0, 3);
    let features: Vec<Value> = (0..count)
        .map(|number| {
            let (kind, advice) = dice.pick(&KINDS, ("wind", ""));
            let severity = dice.pick(&["minor", "moderate", "severe"], "minor");
            json!({
                "type": "Feature",
                "id": format!("urn:demo:alert:{:08x}:{number}", dice.roll(0, 0xffff_ffff)),
                "properties": {
                    "event": { "code": kind, "severity": severity, "certainty": dice.pick(&["possible", "likely", "observed"], "likely") },
                    "text": { "lang": "en", "headline": format!("{severity} {kind} warning for {region}"), "instruction": advice },
                    "window": { "onset_in": { "unitCode": "wmoUnit:h", "value": dice.roll(0, 12) }, "lasts": { "unitCode": "wmoUnit:h", "value": dice.roll(3, 48) } },
                },
            })
        })
        .collect();
    json!({
        "status": { "code": 200, "message": "OK" },
        "data": { "type": "FeatureCollection", "region": region, "features": features },
        "_internal": internal(&mut dice),
    })
}

fn measure(unit: &str, value: f64, quality: &str) -> Value {
    json!({ "unitCode": unit, "value": value, "qualityControl": quality })
}

fn condition((code, text, number): (&str, &str, u16)) -> Value {
    json!({ "code": code, "number": number, "text": text, "icon": { "href": format!("/static/{number}.svg"), "sprite": number % 16 } })
}

/// What a caller has no business with, and real services send all the same.
fn internal(dice: &mut Dice) -> Value {
    json!({
        "cost": { "credits": dice.tenths(0, 2), "cost_center": "CC-4711", "billable": true },
        "backend": { "shard": dice.roll(0, 15), "elapsed_ms": dice.roll(2, 40), "cache": "MISS" },
        "debug": { "experiment": "fc-ranker-b", "flags": ["no-smooth", "v2-grid"] },
    })
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
