//! What can be called: one table, from which every function finds its routes, and from which hosts,
//! templates and the `OpenAPI` document can be checked.

use aws_lambda_events::apigw::ApiGatewayProxyRequest;
use http::Method;

use crate::problem::{Kind, Problem};

/// The functions that answer HTTP, each with its own role and rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Function {
    /// Starts and forks runs. The only one that needs to know the agents.
    Start,
    /// Decides requests. Cannot start models.
    Respond,
    /// Changes runs.
    Control,
    /// Reads; cannot write.
    Query,
}

/// What a route does, by function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Start,
    Fork,
    Respond(Respond),
    Control(Control),
    /// Takes back a standing rule.
    Revoke,
    Query(Query),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Respond {
    /// To the one request of a run that waits.
    Run,
    /// To a request by its name.
    Request,
    MakeLink,
    ShowLink,
    DecideByLink,
    Complete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    Message,
    Pause,
    Resume,
    Cancel,
    Mode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Query {
    Runs,
    Run,
    Journal,
    Export,
    Events,
    Requests,
    Request,
    Rules,
}

impl Endpoint {
    fn function(self) -> Function {
        match self {
            Self::Start | Self::Fork => Function::Start,
            Self::Respond(_) => Function::Respond,
            Self::Control(_) | Self::Revoke => Function::Control,
            Self::Query(_) => Function::Query,
        }
    }
}

/// Who gets in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Whoever the authorizer names.
    Caller,
    /// Whoever holds the token in the path: such a route has no authorizer, and what it is told of one is not looked
    /// at.
    Token,
}

/// A route.
#[derive(Debug)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path, with `{id}` for the name of a run, a request or a rule, `{token}` for a token.
    pub path: &'static str,
    endpoint: Endpoint,
}

impl Route {
    /// The function that answers it.
    #[must_use]
    pub fn function(&self) -> Function {
        self.endpoint.function()
    }

    /// Who gets in.
    #[must_use]
    pub fn access(&self) -> Access {
        match self.endpoint {
            Endpoint::Respond(Respond::ShowLink | Respond::DecideByLink | Respond::Complete) => Access::Token,
            Endpoint::Respond(Respond::Run | Respond::Request | Respond::MakeLink)
            | Endpoint::Start
            | Endpoint::Fork
            | Endpoint::Control(_)
            | Endpoint::Revoke
            | Endpoint::Query(_) => Access::Caller,
        }
    }

    /// The id or token in `path`, empty for a route without one; none if the route is not for this path.
    fn id_in<'p>(&self, path: &'p str) -> Option<&'p str> {
        let Some((head, (_, tail))) =
            self.path.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?)))
        else {
            return (path == self.path).then_some("");
        };
        let id = path.strip_prefix(head)?.strip_suffix(tail)?;
        (!id.is_empty() && !id.contains('/')).then_some(id)
    }
}

const fn route(method: Method, path: &'static str, endpoint: Endpoint) -> Route {
    Route { method, path, endpoint }
}

/// All routes.
pub static ROUTES: [Route; 22] = [
    route(Method::POST, "/v1/runs", Endpoint::Start),
    route(Method::GET, "/v1/runs", Endpoint::Query(Query::Runs)),
    route(Method::GET, "/v1/runs/{id}", Endpoint::Query(Query::Run)),
    route(Method::GET, "/v1/runs/{id}/journal", Endpoint::Query(Query::Journal)),
    route(Method::GET, "/v1/runs/{id}/export", Endpoint::Query(Query::Export)),
    route(Method::GET, "/v1/runs/{id}/events", Endpoint::Query(Query::Events)),
    route(Method::POST, "/v1/runs/{id}/fork", Endpoint::Fork),
    route(Method::POST, "/v1/runs/{id}/messages", Endpoint::Control(Control::Message)),
    route(Method::POST, "/v1/runs/{id}/pause", Endpoint::Control(Control::Pause)),
    route(Method::POST, "/v1/runs/{id}/resume", Endpoint::Control(Control::Resume)),
    route(Method::POST, "/v1/runs/{id}/cancel", Endpoint::Control(Control::Cancel)),
    route(Method::PUT, "/v1/runs/{id}/mode", Endpoint::Control(Control::Mode)),
    route(Method::POST, "/v1/runs/{id}/respond", Endpoint::Respond(Respond::Run)),
    route(Method::GET, "/v1/requests", Endpoint::Query(Query::Requests)),
    route(Method::GET, "/v1/requests/{id}", Endpoint::Query(Query::Request)),
    route(Method::POST, "/v1/requests/{id}/respond", Endpoint::Respond(Respond::Request)),
    route(Method::POST, "/v1/requests/{id}/links", Endpoint::Respond(Respond::MakeLink)),
    // Not the query function's, although it only reads: who can tell a good token from a bad one can make one, and
    // with one decide. So what cannot write has no keys (docs/decisions/0010).
    route(Method::GET, "/v1/links/{token}", Endpoint::Respond(Respond::ShowLink)),
    route(Method::POST, "/v1/links/{token}", Endpoint::Respond(Respond::DecideByLink)),
    route(Method::POST, "/v1/completions/{token}", Endpoint::Respond(Respond::Complete)),
    route(Method::GET, "/v1/rules", Endpoint::Query(Query::Rules)),
    route(Method::DELETE, "/v1/rules/{id}", Endpoint::Revoke),
];

/// The routes for `path`, whatever the method, each with the id in it.
fn at(path: &str) -> impl Iterator<Item = (&'static Route, &str)> {
    ROUTES.iter().filter_map(move |route| Some((route, route.id_in(path)?)))
}

/// The route of `method` on `path`. For a path that exists but not with this method it is one whose function answers
/// 405; none: there is no such path.
#[must_use]
pub fn route_for(method: &Method, path: &str) -> Option<&'static Route> {
    let exact = at(path).find(|(route, _)| route.method == *method);
    exact.or_else(|| at(path).next()).map(|(route, _)| route)
}

/// The function that answers `method` on `path`, as [`route_for`] says.
#[must_use]
pub fn function_for(method: &Method, path: &str) -> Option<Function> {
    route_for(method, path).map(Route::function)
}

/// The endpoint that `request` is for, and the id in its path.
pub(crate) fn find(request: &ApiGatewayProxyRequest) -> Result<(Endpoint, &str), Problem> {
    let path = request.path.as_deref().unwrap_or_default();
    if let Some((route, id)) = at(path).find(|(route, _)| route.method == request.http_method) {
        return Ok((route.endpoint, id));
    }
    let allowed: Vec<_> = at(path).map(|(route, _)| route.method.as_str()).collect();
    if allowed.is_empty() {
        return Err(no_route());
    }
    let allowed = allowed.join(", ");
    let detail = format!("{} is not a method of this resource; use {allowed}", request.http_method);
    Err(Problem::new(Kind::MethodNotAllowed, detail).header("allow", allowed))
}

/// There is no such path.
pub(crate) fn no_route() -> Problem {
    let detail = "there is no such path; the paths begin with /v1/runs, /v1/requests, /v1/rules, /v1/links or \
                  /v1/completions";
    Problem::new(Kind::NotFound, detail)
}

/// A route that another function answers: the deployment sends it to the wrong one.
pub(crate) fn elsewhere(endpoint: Endpoint) -> Problem {
    tracing::error!(?endpoint, "routed to the wrong function");
    no_route()
}
