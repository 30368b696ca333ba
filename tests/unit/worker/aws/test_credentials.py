"""Whose keys they are: of the environment, or lent by a role, in the order of the AWS tools."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from manyhands.worker.aws.credentials import Credentials, NoCredentials, service_url
from manyhands.worker.aws.signing import Keys
from tests.support.aws_server import AwsServer, Reply

NOW = datetime(2026, 11, 19, tzinfo=UTC)
UNTIL = NOW + timedelta(hours=1)
LENT = Keys("lent", "secret", "token")
ROLE = "/latest/meta-data/iam/security-credentials/"


def document(**more: str) -> Reply:
    said = {
        "AccessKeyId": LENT.access,
        "SecretAccessKey": LENT.secret,
        "Token": LENT.token,
        "Expiration": UNTIL.isoformat().replace("+00:00", "Z"),
    }
    return Reply(body=json.dumps(said | more).encode())


@pytest.fixture
def server() -> Iterator[AwsServer]:
    with AwsServer() as server:
        yield server


def credentials(server: AwsServer, **env: str) -> Credentials:
    return Credentials(env, "eu-central-1", instance=server.url)


def test_keys_of_the_environment_come_first_and_nobody_is_asked(server):
    env = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    assert credentials(server, **env).keys(NOW) == Keys("a", "b")
    assert credentials(server, **env, AWS_SESSION_TOKEN="c").keys(NOW) == Keys("a", "b", "c")
    assert server.asked == []


def test_a_container_has_a_role_and_proves_that_it_is_the_one(server, tmp_path):
    server.replies["/role"] = [document()]
    token = tmp_path / "token"
    token.write_text("from a file\n")
    where = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{server.url}/role"}
    assert credentials(server, **where).keys(NOW) == LENT
    given = credentials(server, **where, AWS_CONTAINER_AUTHORIZATION_TOKEN="given")
    assert given.keys(NOW) == LENT
    of_file = credentials(server, **where, AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(token))
    assert of_file.keys(NOW) == LENT
    assert [asked.headers.get("Authorization") for asked in server.asked] == [
        None,
        "given",
        "from a file",
    ]


def test_a_pod_changes_its_token_for_keys(server, tmp_path):
    token = tmp_path / "token"
    token.write_text("a.b.c")
    server.replies["/"] = [
        Reply(
            body=b"<AssumeRoleWithWebIdentityResponse><Credentials>"
            b"<AccessKeyId>lent</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>"
            b"<SessionToken>token</SessionToken><Expiration>2026-11-19T01:00:00Z</Expiration>"
            b"</Credentials></AssumeRoleWithWebIdentityResponse>"
        )
    ]
    found = credentials(
        server,
        AWS_WEB_IDENTITY_TOKEN_FILE=str(token),
        AWS_ROLE_ARN="arn:aws:iam::1:role/crawler",
        AWS_ENDPOINT_URL_STS=f"{server.url}/",
    )
    assert found.keys(NOW) == LENT
    [asked] = server.asked
    assert asked.form["Action"] == "AssumeRoleWithWebIdentity"
    assert asked.form["RoleArn"] == "arn:aws:iam::1:role/crawler"
    assert asked.form["WebIdentityToken"] == "a.b.c"


def test_a_machine_has_a_role_and_is_asked_with_a_token(server):
    server.replies["/latest/api/token"] = [Reply(body=b"t0ken")]
    server.replies[ROLE] = [Reply(body=b"crawler\n")]
    server.replies[f"{ROLE}crawler"] = [document()]
    assert credentials(server).keys(NOW) == LENT
    assert [asked.method for asked in server.asked] == ["PUT", "GET", "GET"]
    assert {asked.headers.get("X-Aws-Ec2-Metadata-Token") for asked in server.asked[1:]} == {
        "t0ken"
    }


def test_lent_keys_are_kept_until_shortly_before_their_end(server):
    server.replies["/role"] = [document(), document(AccessKeyId="next")]
    found = credentials(server, AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{server.url}/role")
    for now in (NOW, UNTIL - timedelta(minutes=6)):
        assert found.keys(now).access == "lent"
    assert len(server.asked) == 1
    assert found.keys(UNTIL - timedelta(minutes=4)).access == "next"


def test_keys_that_were_refused_are_asked_for_again(server):
    server.replies["/role"] = [document(), document(AccessKeyId="next")]
    found = credentials(server, AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{server.url}/role")
    assert found.keys(NOW).access == "lent"
    found.forget()
    assert found.keys(NOW).access == "next"


@pytest.mark.parametrize(
    "reply",
    [Reply(500, b""), Reply(body=b"no json"), Reply(body=b"{}"), document(Expiration="soon")],
    ids=["500", "no json", "no keys", "no time"],
)
def test_a_role_that_lends_none_says_so(server, reply):
    server.replies["/role"] = [reply]
    found = credentials(server, AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{server.url}/role")
    with pytest.raises(NoCredentials):
        found.keys(NOW)


def test_without_any_it_says_what_to_set(server):
    server.replies["/latest/api/token"] = [Reply(body=b"t0ken")]
    server.replies[ROLE] = [Reply(body=b"")]
    with pytest.raises(NoCredentials, match="AWS_ACCESS_KEY_ID"):
        credentials(server).keys(NOW)


def test_china_has_its_own_domain():
    assert service_url("monitoring", "eu-west-1") == "https://monitoring.eu-west-1.amazonaws.com/"
    assert service_url("sts", "cn-north-1").endswith(".cn/")
