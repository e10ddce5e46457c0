#!/usr/bin/env bash
# Fetches rospy and rosmaster (ROS 1: 16 pure-Python packages of Debian or Ubuntu, 0.5 MB) into a folder, without root.
# Nothing is installed: the packages are unpacked there, 4 MB. Run again, it does nothing.
set -euo pipefail

PACKAGES="python3-rospy python3-rosmaster python3-rosgraph python3-roslib python3-genpy python3-genmsg
python3-std-msgs python3-sensor-msgs python3-geometry-msgs python3-nav-msgs python3-actionlib-msgs
python3-rosgraph-msgs python3-roscpp-msg python3-rospkg python3-catkin python3-catkin-pkg"

if [ $# -ne 1 ]; then
    echo "usage: $0 DIR      (DIR = .venv/ros is found by itself; any other by AD2_ROS_PATH=DIR)" >&2
    exit 2
fi
dir=$1
mark=$dir/.ad2_ros
below=usr/lib/python3/dist-packages

say() {
    echo "ROS 1 is in $dir"
    echo "  export AD2_ROS_PATH=$(cd "$dir" && pwd)"
    echo "  it imports three packages from pip: pip install pyyaml pyparsing defusedxml"
}

if [ -f "$mark" ] && [ "$(cat "$mark")" = "$PACKAGES" ] && [ -f "$dir/$below/rospy/__init__.py" ]; then
    say
    exit 0
fi
if [ -e "$dir" ] && [ ! -f "$mark" ] && [ -n "$(ls -A "$dir" 2>/dev/null)" ]; then
    echo "$dir holds something else: name an empty or a new folder" >&2
    exit 1
fi
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    echo "no apt-get here: these packages come from Debian (12 was tried) or Ubuntu's 'universe'. Unpack them in a" >&2
    echo "container of those and copy the folder, or use an installed ROS 1: source /opt/ros/noetic/setup.bash" >&2
    exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/debs" "$work/out" "$work/state/lists/partial" "$work/cache/archives/partial"
# apt checks each package against the signed lists. A list of our own needs no root.
own=(-o "Dir::State=$work/state" -o Dir::State::status=/var/lib/dpkg/status -o "Dir::Cache=$work/cache")
quiet=(-qq -o APT::Sandbox::User=root)
cd_download() { (cd "$work/debs" && apt-get "${quiet[@]}" "$@" download $PACKAGES); }
if ! cd_download 2>"$work/first.log"; then
    echo "the system's package lists do not do: fetching fresh ones into a temporary folder"
    rm -f "$work"/debs/*
    apt-get "${quiet[@]}" "${own[@]}" update
    if ! cd_download "${own[@]}"; then
        echo "apt-get could not fetch them (above): is this Debian (12 was tried), or Ubuntu with 'universe'?" >&2
        exit 1
    fi
fi
for deb in "$work"/debs/*.deb; do
    dpkg-deb -x "$deb" "$work/out"
done
for module in rospy rosmaster rosgraph genpy sensor_msgs nav_msgs; do
    if [ ! -f "$work/out/$below/$module/__init__.py" ]; then
        echo "the packages hold no $below/$module: another release of them? Please report it" >&2
        exit 1
    fi
done
mkdir -p "$dir"
rm -rf "${dir:?}/usr" "${dir:?}/etc"
mv "$work"/out/* "$dir"/
printf '%s' "$PACKAGES" >"$mark"
say
