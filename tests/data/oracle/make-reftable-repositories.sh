#!/bin/sh
# Makes reftable.tar.gz: repositories with reftables, which git has from 2.45 on, and what git says
# of them. Run it where such a git is, with the directory of the archive as argument.
set -eu
target=$(cd "$1" && pwd)
work=$(mktemp -d)
cd "$work"
export HOME="$work" GIT_CONFIG_NOSYSTEM=1 LC_ALL=C TZ=UTC
export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@example.org GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@example.org
export GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'

keep() {  # keep NAME: the repository as it is now, and git's answers
    mkdir -p "out/$1"
    cp -R repo "out/$1/repo"
    {
        git -C repo symbolic-ref HEAD
        git -C repo for-each-ref --format='%(objectname) %(refname)'
        git -C repo stash list --format='stash %H'
        for ref in HEAD refs/heads/main refs/heads/feature; do
            git -C repo rev-parse -q --verify $ref >&2 || continue
            git -C repo reflog show --format="$ref %H %gs" "$ref"
        done
    } >"out/$1/expected"
}

for format in sha1 sha256; do
    rm -rf repo
    git init -q -b main --template= --ref-format=reftable --object-format=$format repo
    git -C repo config gc.auto 0
    for number in 1 2; do
        echo "$format $number" >repo/file$number
        git -C repo add .
        git -C repo commit -q -m "commit $number"
    done
    keep $format-1-commits
    git -C repo tag -a -m tag v1
    git -C repo branch gone
    git -C repo branch -q -D gone
    for number in 1 2; do
        echo "$format changed $number" >repo/file1
        git -C repo stash push -q
    done
    keep $format-2-stashes
    for number in $(seq 400); do echo "create refs/tags/many/$number HEAD"; done |
        git -C repo update-ref --stdin
    keep $format-3-transaction
    git -C repo stash drop -q
    git -C repo checkout -q -b feature
    git -C repo pack-refs --all
    keep $format-4-compacted
    (
        # Tombstones stay in their tables only while nothing is compacted.
        export GIT_TEST_REFTABLE_AUTOCOMPACTION=false
        git -C repo tag -d many/7
        git -C repo branch -q -D main
        git -C repo stash drop -q
    ) >/dev/null
    keep $format-5-deleted
done
git version >out/git-version
tar -c --sort=name --owner=0 --group=0 --mtime=@1700000000 -C out . | gzip -9n >"$target/reftable.tar.gz"
rm -rf "$work"
